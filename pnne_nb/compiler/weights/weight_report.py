"""Puts named tensors into a model in place, and reports what fitted."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import islice
from typing import TypeAlias

import msgspec
import torch
from torch import Tensor, nn

from pnne_nb.compiler.weights.reuse import AXES, NOT_MOVED, Former, former_path, widenings
from pnne_nb.compiler.weights.tensor_file import named_tensors
from pnne_nb.errors import ArgumentError

Shape: TypeAlias = tuple[int, ...]

ROWS = 20
"""Rows of each kind that a report shows."""


class WeightReport(msgspec.Struct, frozen=True):
    """What became of the tensors that a model was given.

    Attributes:
        source: Where they come from.
        target: The model, or the graph.
        placed: Names that both have, with the same shape.
        moved: Names in the model, each with the name that its tensor has in the source.
        reshaped: Names of tensors that have another shape in the source, with the shapes there and here: they have other
            axes of size 1, or belong to a layer that was made wider.
        new: Names in the model for which the source has nothing that fits, with their shapes; they stay as they were.
        left_over: Names in the source that nothing takes, with their shapes.
    """

    source: str
    target: str
    placed: tuple[str, ...]
    moved: dict[str, str]
    reshaped: dict[str, tuple[Shape, Shape]]
    new: dict[str, Shape]
    left_over: dict[str, Shape]

    @property
    def complete(self) -> bool:
        """Whether every tensor of the model has its values from the source, under its own name, and none is left over."""
        return not (self.moved or self.reshaped or self.new or self.left_over)

    @property
    def headline(self) -> str:
        """The numbers, in one line."""
        counts = {
            "placed": self.placed, "moved": self.moved, "reshaped": self.reshaped, "new": self.new,
            "left over": self.left_over,
        }  # fmt: skip
        said = ", ".join(f"{len(names)} {what}" for what, names in counts.items() if names or what == "placed")
        return f"{self.source} into {self.target}: {said}"

    def _rows(self) -> list[tuple[str, str, str]]:
        shapes = {"new": self.new, "left over": self.left_over}
        kinds = {
            "moved": {name: f"is {key} there" for name, key in self.moved.items()},
            "reshaped": {name: f"{before} became {now}" for name, (before, now) in self.reshaped.items()},
            **{what: {name: str(shape) for name, shape in found.items()} for what, found in shapes.items()},
        }
        rows = []
        for what, found in kinds.items():
            rows += [(what, name, said) for name, said in islice(found.items(), ROWS)]
            rows += [(what, f"and {len(found) - ROWS} more", "")] * (len(found) > ROWS)
        return rows

    def __repr__(self) -> str:
        width = max((len(name) for _, name, _ in self._rows()), default=0)
        lines = [f"  {what:<9}  {name:<{width}}  {said}".rstrip() for what, name, said in self._rows()]
        return "\n".join([self.headline, *lines])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows())
        head = "<tr><th></th><th>tensor</th><th></th></tr>"
        table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if rows else ""
        return f"<p>{escape(self.headline)}</p>{table}"


def require_any(report: WeightReport) -> WeightReport:
    """Return a report, if anything fitted.

    Raises:
        ArgumentError: If nothing did.
    """
    if not (report.placed or report.moved or report.reshaped):
        raise ArgumentError(f"Nothing fits. {report!r}")
    return report


def place(
    model: nn.Module, tensors: Mapping[str, Tensor], former: Former = NOT_MOVED, *, source: str, target: str
) -> WeightReport:
    """Copy tensors into the parameters and buffers of a model, which keep their devices and element types.

    A name of the model is looked for as it is, under its `former` path, and behind a prefix that all names of the source
    have or lack, such as ``module.``. Where no name is found, the tensors are taken in their order, if they are as many
    as the model's and each has the shape and the last part of the name of its counterpart.

    Args:
        model: Changed in place.
        tensors: By name.
        former: Paths that its modules have in the source, where they differ.
        source: Where they come from, in words.
        target: The model in words.
    """
    transient = {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        for name in module._non_persistent_buffers_set
    }
    own = named_tensors(model)
    keys = _keys(
        {name: each for name, each in own.items() if name not in transient or name in tensors}, tensors, former
    )
    wider = widenings(_narrower(model, keys, tensors), model, lambda path: path)
    placed, moved, reshaped, used = list[str](), dict[str, str](), dict[str, tuple[Shape, Shape]](), set[str]()
    filled: set[int] = set()
    with torch.no_grad():
        for name, key in keys.items():
            tensor, value = own[name], tensors[key].detach()
            if tensor.shape != value.shape and name in wider:
                values = wider[name].fit(value, tensor)
            elif _without_ones(tensor.shape) == _without_ones(value.shape):
                values = value.reshape(tensor.shape)
            else:
                continue
            tensor.copy_(values)
            used.add(key)
            filled.add(id(tensor))
            if tensor.shape != value.shape:
                reshaped[name] = tuple(value.shape), tuple(tensor.shape)
            elif key != name:
                moved[name] = key
            else:
                placed.append(name)
    new = {name: tuple(each.shape) for name, each in own.items() if id(each) not in filled and name not in transient}
    left = {name: tuple(each.shape) for name, each in tensors.items() if name not in used}
    return WeightReport(source, target, tuple(placed), moved, reshaped, new, left)


def _without_ones(shape: torch.Size) -> Shape:
    return tuple(size for size in shape if size != 1)


def _keys(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], former: Former) -> dict[str, str]:
    """Return the names that tensors of a model have in a source, by their own."""
    wanted: dict[str, str] = {}
    for name in own:
        path, _, last = name.rpartition(".")
        before = former_path(name, former) if name in former else former_path(path, former)
        if before is not None:
            wanted[name] = before if name in former else ".".join(filter(None, (before, last)))
    best = _found(wanted, tensors, "", "")
    for theirs in {name.partition(".")[0] for name in tensors}:
        best = max(best, _found(wanted, tensors, f"{theirs}.", ""), key=len)
    for ours in {name.partition(".")[0] for name in wanted.values()}:
        best = max(best, _found(wanted, tensors, "", f"{ours}."), key=len)
    return best or _in_order(own, tensors)


def _found(wanted: Mapping[str, str], tensors: Mapping[str, Tensor], theirs: str, ours: str) -> dict[str, str]:
    """Return what is found where the names of the source begin with `theirs`, and those of the model with `ours`."""
    return {
        name: key
        for name, each in wanted.items()
        if each.startswith(ours) and (key := f"{theirs}{each.removeprefix(ours)}") in tensors
    }


def _in_order(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    pairs = list(zip(own.items(), tensors.items(), strict=False))
    fits = len(own) == len(tensors) and all(
        mine.shape == its.shape and name.rpartition(".")[2] == key.rpartition(".")[2]
        for (name, mine), (key, its) in pairs
    )
    return {name: key for (name, _), (key, _) in pairs} if fits else {}


def _narrower(model: nn.Module, keys: Mapping[str, str], tensors: Mapping[str, Tensor]) -> nn.Module:
    """Return modules that stand for the layers that a source is of, with its tensors and the sizes that these tell."""
    root = nn.Module()
    for path, layer in model.named_modules():
        axes = AXES.get(type(layer))
        if axes is None or not path or getattr(layer, "groups", 1) != 1:
            continue
        old = object.__new__(type(layer))
        nn.Module.__init__(old)
        for name, sizes in axes.items():
            key = keys.get(f"{path}.{name}")
            if key is None:
                continue
            old.register_parameter(name, nn.Parameter(tensors[key].detach(), requires_grad=False))
            for size, number in zip(sizes, tensors[key].shape, strict=False):
                vars(old)[size] = number
        above = root
        for part in path.split(".")[:-1]:
            if part not in above._modules:
                above.add_module(part, nn.Module())
            above = above.get_submodule(part)
        above._modules[path.rpartition(".")[2]] = old
    return root
