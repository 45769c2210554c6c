"""What can be done to a layer's output: `zero`, `scale`, `clamp`, `mean` and `patch`, in a part of it or the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, final

import torch
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, InspectionError, expect, near, shown
from pnne_nb.inspector.questions.example import whole_numbers

_SEQUENCE = 3
_CHANNELS_FIRST = (nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d, nn.InstanceNorm1d, nn.MaxPool1d, nn.AvgPool1d)
_CHANNELS_LAST = (nn.Linear, nn.LayerNorm, nn.Embedding)

Indices = int | Sequence[int]


def channel_axis(kind: type, dims: int) -> int:
    """Return the dimension that counts channels in an output of `dims` dimensions of a layer of class `kind`.

    It is the last one of `[n, c]`, of a sequence `[n, t, c]`, and of what linear layers, layer norms and embeddings
    return; it is the second one of images `[n, c, …]` and of what one-dimensional convolutions and pools return.
    """
    last = dims - 1
    if issubclass(kind, _CHANNELS_LAST) or dims < _SEQUENCE:
        return last
    return last if dims == _SEQUENCE and not issubclass(kind, _CHANNELS_FIRST) else 1


@final
@dataclass(frozen=True)
class Part:
    """A part of a layer's output: where all that is given meets, or everywhere.

    Attributes:
        channels: Indices of channels (units of a linear layer).
        heads: Indices of attention heads, at the input of the projection that joins them.
        of: Number of heads, for a projection that does not tell.
        tokens: Indices of positions, of dimension 1; negative ones count from the end.
        units: Indices of single elements in the output of an example, such as ``(3, 5, 5)``.
        dim: The dimension that `channels` or `tokens` count, if it is another one.
    """

    channels: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    of: int | None = None
    tokens: tuple[int, ...] | None = None
    units: tuple[tuple[int, ...], ...] | None = None
    dim: int | None = None

    def __str__(self) -> str:
        words = {"channel": self.channels, "head": self.heads, "token": self.tokens, "unit": self.units}
        return ", ".join(
            f"{word}{'s' if len(places) > 1 else ''} {', '.join(map(str, places))}"
            for word, places in words.items()
            if places is not None
        )

    def mask(self, tensor: Tensor, kind: type, layer: str) -> Tensor | None:
        """Return where `tensor`, of a layer of class `kind`, belongs to the part, as a mask that broadcasts; None for everywhere.

        Raises:
            InspectionError: If the tensor has no such place.
        """
        masks = []
        if self.heads is not None:
            assert self.of is not None
            size = tensor.shape[-1] // self.of
            inside = _marked(self.heads, self.of, "head", layer, f"{self.of} heads", tensor.device)
            masks.append(inside.repeat_interleave(size))
        for word, places, usual in (
            ("channel", self.channels, channel_axis(kind, tensor.dim())),
            ("token", self.tokens, 1),
        ):
            if places is not None:
                dim = usual if self.dim is None else self.dim
                if not -tensor.dim() <= dim < tensor.dim():
                    raise InspectionError(
                        f"The layer {layer!r} has no dimension {dim} for {word}s: its output has the shape"
                        f" {list(tensor.shape)}."
                    )
                dim %= tensor.dim()
                said = f"the shape {list(tensor.shape)}, in which dimension {dim} counts {word}s (dim= chooses another one)"
                inside = _marked(places, tensor.shape[dim], word, layer, said, tensor.device)
                masks.append(inside.view(*(-1 if axis == dim else 1 for axis in range(tensor.dim()))))
        if self.units is not None:
            masks.append(self._units(tensor, layer))
        if not masks:
            return None
        whole = masks[0]
        for further in masks[1:]:
            whole = whole & further
        return whole

    def _units(self, tensor: Tensor, layer: str) -> Tensor:
        assert self.units is not None
        each = tensor.shape[1:]
        inside = torch.zeros(each, dtype=torch.bool, device=tensor.device)
        for unit in self.units:
            fits = len(unit) == len(each) and all(-size <= one < size for one, size in zip(unit, each, strict=True))
            if not fits:
                raise InspectionError(
                    f"The layer {layer!r} has no unit {unit}: its output has the shape {list(each)} for each example."
                )
            inside[unit] = True
        return inside


def _marked(places: tuple[int, ...], count: int, word: str, layer: str, said: str, device: torch.device) -> Tensor:
    wrong = [place for place in places if not -count <= place < count]
    if wrong:
        raise InspectionError(
            f"The layer {layer!r} has no {word} {wrong[0]}: its {word}s are 0 to {count - 1}. Its output has {said}."
        )
    inside = torch.zeros(count, dtype=torch.bool, device=device)
    inside[list(places)] = True
    return inside


@final
@dataclass(frozen=True)
class Change:
    """A change of a layer's output, made by `zero`, `scale`, `clamp`, `mean` or `patch`.

    Attributes:
        words: What it does, such as ``"zero"`` or ``"scale by 0.5"``.
        part: Where.
        rule: The new value of an output `tensor` of `module`, given the output of the second example or None.
        source: The second example of a patch, as the model takes it; None for other changes.
        factor: What it multiplies the part by; None for other changes.
    """

    words: str
    part: Part
    rule: Callable[[Tensor, nn.Module | None, Tensor | None], Tensor]
    source: object = None
    factor: float | None = None

    def __repr__(self) -> str:
        return f"{self.words}{' ' if str(self.part) else ''}{self.part}"


class Parts(TypedDict, total=False):
    """The arguments that say which part of an output is meant; see `zero`."""

    channels: Indices
    heads: Indices
    of: int
    tokens: Indices
    units: Sequence[int | tuple[int, ...]]
    dim: int


def zero(**part: Unpack[Parts]) -> Change:
    """Set a layer's output to 0, for `pn.intervene`.

    Without a part, it is the whole output. Of several kinds of parts, it is where all of them meet.

    Args:
        part: ``channels=[3, 17]`` are channels, or units of a linear layer. ``heads=[0]`` are heads of an
            ``nn.MultiheadAttention``, or with ``of=8`` those of the linear layer that joins 8 heads. ``tokens=[-1]`` are
            positions in a sequence `[n, t, c]`. ``units=[(3, 5, 5)]`` are single elements, by their index in the output of
            an example. ``dim=1`` is the dimension that counts channels or tokens, if it is not the usual one.

    Raises:
        ArgumentError: If the part is none.
    """
    return Change("zero", _part(part), lambda tensor, *_: torch.zeros_like(tensor), factor=0.0)


def scale(factor: float, **part: Unpack[Parts]) -> Change:
    """Multiply a layer's output by `factor`, for `pn.intervene`.

    Args:
        factor: The factor; -1 turns the sign.
        part: As for `pn.zero`.

    Raises:
        ArgumentError: If `factor` is no number, or the part none.
    """
    expect(factor, int | float, "factor", "a number")
    return Change(f"scale by {shown(factor)}", _part(part), lambda tensor, *_: tensor * factor, factor=factor)


def clamp(low: float | None = None, high: float | None = None, **part: Unpack[Parts]) -> Change:
    """Keep a layer's output from `low` to `high`, for `pn.intervene`.

    Args:
        low: The smallest value; None for no bound.
        high: The largest value; None for no bound.
        part: As for `pn.zero`.

    Raises:
        ArgumentError: If a bound is no number, both are missing or `low` is above `high`, or the part is none.
    """
    expect(low, int | float | None, "low", "a number or None")
    expect(high, int | float | None, "high", "a number or None")
    if low is None and high is None:
        raise ArgumentError("pn.clamp has no bound: write pn.clamp(-1, 1), or pn.clamp(high=1).")
    if low is not None and high is not None and not low <= high:
        raise ArgumentError(f"pn.clamp keeps values from low to high: low={low} is not below high={high}.")
    bounds = f"{'' if low is None else f' from {shown(low)}'}{'' if high is None else f' to {shown(high)}'}"
    return Change(f"clamp{bounds}", _part(part), lambda tensor, *_: tensor.clamp(low, high))


def mean(**part: Unpack[Parts]) -> Change:
    """Replace a layer's output by the mean of each channel over the examples and positions of the call, for `pn.intervene`.

    Args:
        part: As for `pn.zero`.

    Raises:
        ArgumentError: If the part is none.
    """
    meant = _part(part)

    def rule(tensor: Tensor, module: nn.Module | None, _source: Tensor | None) -> Tensor:
        kept = channel_axis(type(module), tensor.dim())
        if meant.heads is not None:
            kept = tensor.dim() - 1
        elif meant.dim is not None and meant.channels is not None:
            kept = meant.dim % tensor.dim()
        others = [axis for axis in range(tensor.dim()) if axis != kept]
        return tensor.mean(others, keepdim=True).expand_as(tensor) if others else tensor

    return Change("mean", meant, rule)


def patch(data: object, **part: Unpack[Parts]) -> Change:
    """Replace a layer's output by the one that the layer has for a second example, for `pn.intervene`.

    Args:
        data: The second example: a tensor is the model's argument, a tuple its arguments, a mapping its keyword arguments.
            One example fits a batch of any size.
        part: As for `pn.zero`.

    Raises:
        ArgumentError: If `data` is None, or the part none.
    """
    if data is None:
        raise ArgumentError("data is the second example, and cannot be None: write pn.patch(other_x).")

    def rule(tensor: Tensor, _module: nn.Module | None, source: Tensor | None) -> Tensor:
        assert source is not None
        if source.shape[1:] != tensor.shape[1:] or len(source) not in (1, len(tensor)):
            raise InspectionError(
                f"The output has the shape {list(tensor.shape)} here, and {list(source.shape)} for the second example of"
                " pn.patch: give an example of the same size."
            )
        return source.to(tensor).expand_as(tensor)

    return Change("patch", _part(part), rule, data)


def _part(part: Parts) -> Part:
    """Check the arguments of a part.

    Raises:
        ArgumentError: If one has the wrong name, type or value, or some exclude each other.
    """
    given: dict[str, Any] = {**part}
    known = tuple(Parts.__annotations__)
    for name in given:
        if name not in known:
            raise ArgumentError(
                f"There is no part {name!r} of an output.{near(name, known)} Parts are {', '.join(known)}."
            )
    of, dim, units = given.get("of"), given.get("dim"), given.get("units")
    if of is not None and (not isinstance(of, int) or of < 1):
        raise ArgumentError(f"of must be a number of heads, not {shown(of)}.")
    expect(dim, int | None, "dim", "a dimension of the output")
    if dim is not None and ("channels" in given) == ("tokens" in given):
        raise ArgumentError(
            "dim is the dimension of channels or of tokens: give one of both, pn.zero(channels=3, dim=1)."
        )
    if "heads" in given and ("channels" in given or "units" in given):
        raise ArgumentError(
            "heads are counted before the projection that joins them, channels and units after it: give one."
        )
    listed = {name: _indices(given[name], name) for name in ("channels", "heads", "tokens") if name in given}
    if "units" in given:
        units = [units] if isinstance(units, int | tuple) else units
        if not isinstance(units, Sequence) or isinstance(units, str) or not units:
            raise ArgumentError(f"units must be indices such as [(3, 5, 5)], not {shown(units)}.")
        units = tuple(_indices(one, "units") for one in units)
    return Part(of=of, dim=dim, units=units, **listed)


def _indices(places: object, name: str) -> tuple[int, ...]:
    found = whole_numbers(places)
    if found is None:
        raise ArgumentError(f"{name} must be an index or several, such as [3, 17], not {shown(places)}.")
    return found
