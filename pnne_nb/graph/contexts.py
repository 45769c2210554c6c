"""Context managers of torch's that a node can run inside of. To add one, add it here: all else derives from this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pnne_nb.graph.values import TorchConstant, Value


class Context(NamedTuple):
    """The call that makes a context manager.

    Attributes:
        target: Dotted name of its class.
        arguments: By position.
        keywords: By name.
    """

    target: str
    arguments: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


DEVICES = ("cpu", "cuda")
"""Kinds of devices with an autocast; that of another kind is none that a node can run inside of."""

ELEMENTS = ("bfloat16", "float16")
"""Element types that an autocast computes in."""

CONTEXTS: Mapping[str, Context] = {
    "no_grad": Context("torch.no_grad"),
    "enable_grad": Context("torch.enable_grad"),
    "inference_mode": Context("torch.inference_mode"),
    **{f"autocast {device}": Context("torch.autocast", (device,)) for device in DEVICES},
    **{f"autocast {device} off": Context("torch.autocast", (device,), (("enabled", False),)) for device in DEVICES},
    **{
        f"autocast {device} {element}": Context("torch.autocast", (device,), (("dtype", TorchConstant(element)),))
        for device in DEVICES
        for element in ELEMENTS
    },
}
"""By the names that documents use."""
