"""Element types that a document names: of inputs and weights, and of imported layers where it is not the usual one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import torch
from torch import nn

from pnne_nb.graph.node import Node
from pnne_nb.graph.types import DtypeType, check
from pnne_nb.graph.values import DTYPES, Value

ELEMENT = "dtype"
"""Argument of torch's layers by which they are made of another element type; no property of any node."""


def named_type(node: Node) -> torch.dtype | None:
    """Return the element type of an input or weight, or None if its property names none: a file may, and lint says so."""
    name = node.properties.get(ELEMENT, "float32")
    return getattr(torch, name) if isinstance(name, str) and name in DTYPES else None


def element_type(module: nn.Module) -> str:
    """Return the element type of all parameters of a layer that can be made of it, or an empty string if it is usual."""
    kinds = {parameter.dtype for parameter in module.parameters()}
    if len(kinds) != 1 or kinds == {torch.float32}:
        return ""
    if not isinstance(module, nn.RNNBase) and ELEMENT not in inspect.signature(type(module)).parameters:
        return ""
    return str(kinds.pop()).removeprefix("torch.")


def with_element_type(node: Node) -> Mapping[str, Value]:
    """Return the properties of a node, and the element type of the layer that it was imported from."""
    said = node.origin.get(ELEMENT) if isinstance(node.origin, dict) else None
    if said is None or ELEMENT in node.properties:
        return node.properties
    try:
        return {**node.properties, ELEMENT: check(DtypeType(), said)}
    except ValueError:
        return node.properties  # a file may say anything
