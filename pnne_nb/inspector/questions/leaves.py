"""Where attributions are taken: real inputs as they are, whole numbers where an embedding has read them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pnne_nb.errors import ArgumentError, InspectionError, shown
from pnne_nb.inspector.questions.example import Example, Target, scores_of
from pnne_nb.inspector.questions.origins import SEVERAL, Origins
from pnne_nb.inspector.questions.sites import edited, place_of


@final
@dataclass(frozen=True, eq=False)
class Leaf:
    """A real tensor that the answer is a function of.

    Attributes:
        name: The input that it is, or the path of the embedding that looked it up.
        call: Which call of the embedding; None for an input.
        start: Its value for the example: the shape of the input, or of what the embedding reads with a dimension more.
        parts: By input, where it stands for values of that, in the shape of the input or of what is read, and for which.
    """

    name: str
    call: int | None
    start: Tensor
    parts: Mapping[str, tuple[Tensor, Tensor]]


@final
class Leaves(TorchFunctionMode):
    """The answer of an example as a function of its leaves. Inside ``with``, embeddings look up what `answer` is given.

    Args:
        example: The example.
        target: The number of the output that is the answer.
        of: The layer or function whose output is meant; None for the model's.

    Attributes:
        all: The leaves: real inputs, and what embeddings have looked up for values of inputs.
        where: The inputs that they stand for, and where their values are taken, in words.
        notes: What is not in the values, in words.
    """

    def __init__(self, example: Example, target: Target, of: str | None = None) -> None:
        super().__init__()
        self.model, inputs = example.model, example.inputs
        self._example, self._target, self._of = example, target, of
        self._read: list[Leaf] = []
        self._several: list[str] = []
        self._calls: dict[str, int] = {}
        self._instead: Mapping[tuple[str, int | None], Tensor] = {}
        self._given: Mapping[str, Tensor] = {}
        self._paths = {id(weight): name for name, weight in self.model.named_parameters(remove_duplicate=False)}
        layers = {
            path: one for path, one in self.model.named_modules() if isinstance(one, nn.Embedding | nn.EmbeddingBag)
        }
        self._paths |= {id(layer._parameters.get("weight")): path for path, layer in layers.items()}
        if of is not None:
            place_of(self.model, of)
        self._origins = Origins(example)
        whole = any(not value.is_floating_point() for value in inputs.values())
        with self, self._origins if whole or layers else nullcontext():
            self.answers = self._scores().detach()
        real = [
            Leaf(name, None, x.detach(), {name: (torch.ones(x.shape, dtype=torch.bool), torch.arange(x.numel()))})
            for name, x in inputs.items()
            if x.is_floating_point()
        ]
        self.all = [*real, *(leaf for leaf in self._read if leaf.parts)]
        words: dict[str, dict[str, None]] = {}
        for leaf in self.all:
            for name in leaf.parts:
                words.setdefault(name, {})["input" if leaf.call is None else f"embedding {leaf.name!r}"] = None
        self.where = {name: " and ".join(each) for name, each in words.items()}
        self.notes = tuple(self._notes())
        if not self.all:
            kinds = ", ".join(f"{name} ({str(value.dtype)[6:]})" for name, value in inputs.items())
            raise InspectionError(
                f"No input can be asked about: {kinds or 'there is no tensor among the arguments'}. Whole numbers are asked"
                f" about where an nn.Embedding reads them, and none does here. {' '.join(self.notes)}".rstrip()
            )

    def _notes(self) -> Iterator[str]:
        for path in dict.fromkeys(self._several):
            yield f"The embedding {path!r} reads numbers that are computed of several values of the inputs: it is held fixed."
        for name, value in self._example.inputs.items():
            first = self._origins.first[name]
            alone = self._origins.computed[first : first + value.numel()].clone()
            for leaf in self.all:
                alone[leaf.parts.get(name, ((), []))[1]] = False
            if bool(alone.any()) and not value.is_floating_point() and value.dtype != torch.bool:
                yield (
                    f"{int(alone.sum())} of {value.numel()} values of the input {name!r} are read by no embedding, but used"
                    " otherwise: they are kept as they are, and have no part in the values."
                )

    def answer(self, points: Sequence[Tensor]) -> Tensor:
        """Return the answer `[n]` with `points` in place of the leaves; only inside ``with``."""
        self._calls = {}
        pairs = list(zip(self.all, points, strict=True))
        self._instead = {(leaf.name, leaf.call): point for leaf, point in pairs if leaf.call is not None}
        given = {leaf.name: point for leaf, point in pairs if leaf.call is None}
        return self._scores(given)

    def _scores(self, given: Mapping[str, Tensor] | None = None) -> Tensor:
        if self._of is None:
            return scores_of(self._example.run(given), self._target)
        seen: list[Tensor] = []

        def see(tensor: Tensor) -> Tensor:
            seen.append(tensor.clone())  # what follows may work in place
            return tensor

        with edited(self.model, {self._of: see}):
            self._example.run(given)
        if not seen:
            raise InspectionError(f"The layer {self._of!r} is not called for this example.")
        return scores_of(seen[0], self._target)

    def gradients(self, points: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradient of the answer at `points`, summed over examples.

        Raises:
            InspectionError: If the answer has no gradient there.
        """
        followed = [point.detach().requires_grad_() for point in points]
        answers = self.answer(followed)
        found: Sequence[Tensor | None] = [None] * len(followed)
        if answers.requires_grad:
            found = torch.autograd.grad(answers.sum(), followed, allow_unused=True)
        if all(gradient is None for gradient in found):
            names = " and ".join(map(repr, self.where))
            raise InspectionError(
                f"The answer has no gradient with respect to {names}: the output does not depend on it, or through something"
                ' without a gradient (detach, argmax, no_grad). method="occlusion" needs none.'
            )
        return [
            torch.zeros_like(point) if gradient is None else gradient
            for point, gradient in zip(followed, found, strict=True)
        ]

    def reached(self, points: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return by input on which of its values the answer depends at `points`."""
        counts = self.merged([(gradient != 0).float() for gradient in self.gradients(points)])
        return {name: count != 0 for name, count in counts.items()}

    def baselines(self, baseline: object) -> list[Tensor]:
        """Return what each leaf is compared with.

        Args:
            baseline: None is 0, also as an embedding. A number or a tensor that broadcasts to the input; a tuple of them
                for several inputs. Of whole numbers, a token whose embedding is taken.

        Raises:
            ArgumentError: If it does not fit.
        """
        names = list(self.where)
        listed = baseline if isinstance(baseline, tuple) else (baseline,) * len(names)
        if len(listed) != len(names):
            raise ArgumentError(f"baseline has {len(listed)} values for {len(names)} inputs: {', '.join(names)}.")
        given = {name: self._expanded(name, one) for name, one in zip(names, listed, strict=True) if one is not None}
        looked: dict[tuple[str, int | None], Tensor] = {(name, None): value for name, value in given.items()}
        if given and any(leaf.call is not None for leaf in self.all):
            self._calls, self._read, self._instead, self._given = {}, [], {}, given
            self._example.run(given)
            looked |= {(leaf.name, leaf.call): leaf.start for leaf in self._read}
            self._given = {}
        bases = [leaf.start.clone() for leaf in self.all]
        for leaf, base in zip(self.all, bases, strict=True):
            for name, (inside, _) in leaf.parts.items():
                other = looked.get((leaf.name, leaf.call)) if name in given else torch.zeros_like(base)
                if other is None or other.shape != base.shape:
                    raise ArgumentError(
                        f"With this baseline, the embedding {leaf.name!r} reads another number of them."
                    )
                base[inside] = other[inside].to(base)
        return bases

    def merged(self, values: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the values of leaves in the shape of the inputs: those of an embedding summed over its last dimension."""
        merged: dict[str, Tensor] = {}
        for leaf, value in zip(self.all, values, strict=True):
            own = value if leaf.call is None else value.sum(-1)
            for name, (inside, at) in leaf.parts.items():
                flat = merged.setdefault(name, own.new_zeros(self._example.inputs[name].shape)).view(-1)
                flat.index_add_(0, at.to(flat.device), own[inside].to(flat))
        return merged

    def without(self, name: str, hidden: Tensor, bases: Sequence[Tensor]) -> list[Tensor]:
        """Return the leaves with those of their baselines that stand for the `hidden` values of an input."""
        points = []
        for leaf, base in zip(self.all, bases, strict=True):
            points.append(leaf.start.clone())
            if name in leaf.parts:
                inside, at = leaf.parts[name]
                chosen = inside.clone()
                chosen[inside] = hidden.view(-1)[at]
                points[-1][chosen] = base[chosen]
        return points

    def _expanded(self, name: str, given: object) -> Tensor:
        if not isinstance(given, (int, float, Tensor)) or isinstance(given, bool):
            raise ArgumentError(f"baseline must be a number or a tensor for the input {name!r}, not {shown(given)}.")
        whole = self._example.inputs[name]
        try:
            value = torch.as_tensor(given, device=whole.device).expand(whole.shape)
        except RuntimeError:
            size = list(given.shape) if isinstance(given, Tensor) else given
            raise ArgumentError(
                f"The baseline {size} does not fit the input {name!r}, which has the shape {list(whole.shape)}."
            ) from None
        if value.is_floating_point() and not whole.is_floating_point():
            raise ArgumentError(f"The baseline of the input {name!r} is a token, a whole number, not {shown(given)}.")
        return value.to(whole.dtype)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Look up what an embedding reads, or what is given instead."""
        if func is not F.embedding and func is not F.embedding_bag:
            return func(*args, **(kwargs or {}))
        given = inspect.signature(func).bind(*args, **(kwargs or {})).arguments
        ids, weight = given["input"], given["weight"]
        path = self._paths.get(id(weight), "")
        call = self._calls[path] = self._calls.get(path, -1) + 1
        point = self._instead.get((path, call))
        if point is not None:
            return point if func is F.embedding else _pooled(given, point)
        outside = ids[(ids < 0) | (ids >= len(weight))] if self._given else ids[:0]
        if outside.numel():
            wrong = f"a token from 0 to {len(weight) - 1}, not {int(outside[0])}"
            raise ArgumentError(f"The baseline of the input {' and '.join(map(repr, self._given))} is {wrong}.")
        places = ids if self._given else None if self._instead else self._origins.places(ids)
        if places is not None:
            norm = {key: given[key] for key in ("max_norm", "norm_type") if key in given}
            rows = F.embedding(ids, weight, **norm).detach()
            self._several += [path] * bool((places == SEVERAL).any())
            parts = {}
            for name, value in self._example.inputs.items():
                at = places.cpu() - self._origins.first[name]
                inside = (at >= 0) & (at < value.numel())
                if bool(inside.any()):
                    parts[name] = (inside, at[inside])
            self._read.append(Leaf(path, call, rows, parts))
        return func(*args, **(kwargs or {}))


def _pooled(given: Mapping[str, Any], rows: Tensor) -> Tensor:
    """Return what an embedding bag makes of `rows` in place of those that it reads."""
    table, shape = rows.flatten(0, -2), rows.shape[:-1]
    numbers = torch.arange(len(table), device=rows.device).view(shape)
    rest = {key: given[key] for key in ("offsets", "mode", "per_sample_weights", "include_last_offset") if key in given}
    padding = given.get("padding_idx")
    if padding is not None:
        ids = given["input"].repeat(len(rows) // len(given["input"]), *(1 for _ in shape[1:]))
        numbers = torch.where(ids == padding % len(given["weight"]), len(table), numbers)
        table = torch.cat([table, table.new_zeros(1, table.shape[1])])
        rest["padding_idx"] = len(table) - 1
    return F.embedding_bag(numbers, table, **rest)
