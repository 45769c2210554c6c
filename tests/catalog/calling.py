"""Makes the torch object of a spec and calls it, from nothing but the spec: what a generator would write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pnne_nb.catalog.tables.overrides import AUTOMATIC
from pnne_nb.graph.schema.property_types import DtypeType, OptionalType, TensorType, check
from pnne_nb.graph.schema.spec import NodeSpec, Property


def resolve(target: str) -> Any:
    """Return the object under ``torch`` that a dotted target names."""
    value: Any = torch
    for part in target.split(".")[1:]:
        value = getattr(value, part)
    return value


def build(spec: NodeSpec, values: Mapping[str, object], tensors: Sequence[object] = ()) -> Any:
    """Return a module made from its ``init`` properties; ``"auto"`` is read off the tensors."""
    settings: dict[str, Any] = {}
    for prop in spec.properties:
        if prop.role != "init":
            continue
        value = checked(prop, values[prop.name]) if prop.name in values else prop.default
        if value == "auto":
            rule = AUTOMATIC[spec.type, prop.name]
            given = tensors[rule.input]
            assert isinstance(given, Tensor)
            value = given.shape[rule.axis]
        settings[prop.name] = value
    parts: dict[str, Any] = {}
    for part in spec.parts:
        made = {argument: settings[name] for argument, name in part.properties}
        if not part.when or settings[part.when]:
            parts[part.argument] = resolve(part.target)(**made)
    owned = {name for part in spec.parts for _, name in part.properties} | {part.when for part in spec.parts}
    plain = {name: value for name, value in settings.items() if name not in owned}
    return resolve(spec.target)(**plain, **parts)


def call(spec: NodeSpec, target: Any, values: Mapping[str, object], inputs: Mapping[str, Any]) -> Any:
    """Call `target` as the spec's ``positional`` says: by position up to the first gap, then by keyword."""
    given: dict[str, Any] = dict(inputs)
    for prop in spec.properties:
        if prop.role == "call" and prop.name in values:
            given[prop.name] = checked(prop, values[prop.name])
    if "training" in {prop.name for prop in spec.properties} and "training" not in given:
        given["training"] = True
    positional: list[Any] = []
    for name in spec.positional:
        plain = name.removeprefix("*")
        if plain not in given:
            break
        value = given.pop(plain)
        positional.extend(value if plain != name else [value])
    if spec.kind == "method":
        return getattr(positional[0], spec.target)(*positional[1:], **given)
    return target(*positional, **given)


def checked(prop: Property, value: object) -> Any:
    """Return a property value as torch takes it."""
    stored = check(prop.type, value)
    kind = prop.type.item if isinstance(prop.type, OptionalType) else prop.type
    if isinstance(kind, TensorType):
        return None if stored is None else torch.tensor(stored)
    return getattr(torch, str(stored)) if isinstance(kind, DtypeType) and stored is not None else stored


def flat(result: Any) -> list[Any]:
    """Return the values of a result, nested tuples taken apart."""
    if isinstance(result, (tuple, list)) and not isinstance(result, torch.Size):
        return [value for item in result for value in flat(item)]
    return [result]
