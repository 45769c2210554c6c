"""Where attributions are taken: real inputs as they are, whole numbers where an embedding has read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, InspectionError, shown
from pnne_nb.inspector.questions.example import Example, Target, scores_of
from pnne_nb.inspector.questions.sites import edited, place_of


@final
@dataclass(frozen=True, eq=False)
class Leaf:
    """A real tensor that the answer is a function of.

    Attributes:
        input: Name of the input that it is, or that its embedding has read.
        embedding: Path of the embedding; None for the input itself.
        call: Which call of the embedding.
        start: Its value for the example: the shape of the input, with a dimension more after an embedding.
        module: The embedding.
    """

    input: str
    embedding: str | None
    call: int
    start: Tensor
    module: nn.Embedding | None = None


@final
class Leaves:
    """The answer of an example as a function of its leaves.

    Args:
        example: The example.
        target: The number of the output that is the answer.
        of: The layer or function whose output is meant; None for the model's.
    """

    def __init__(self, example: Example, target: Target, of: str | None = None) -> None:
        self.model = example.model
        self._example, self._target, self._of = example, target, of
        self._read: list[tuple[Leaf, bool]] = []
        self._calls: dict[str, int] = {}
        self._instead: Mapping[tuple[str, int], Tensor] = {}
        if of is not None:
            place_of(self.model, of)
        with self.watched():
            self.answers = self._scores().detach()
        real = [
            Leaf(name, None, 0, value.detach()) for name, value in example.inputs.items() if value.is_floating_point()
        ]
        # A model may copy what it looks up. Equal numbers, such as positions, do not count beside the input itself.
        sure = {leaf.input for leaf, own in self._read if own}
        taken = {(leaf.embedding, leaf.call) for leaf, own in self._read if own}
        embedded = [
            leaf
            for leaf, own in self._read
            if own or (leaf.input not in sure and (leaf.embedding, leaf.call) not in taken)
        ]
        self.all = [*real, *embedded]
        if not self.all:
            kinds = ", ".join(f"{name} ({str(value.dtype)[6:]})" for name, value in example.inputs.items())
            raise InspectionError(
                f"No input can be asked about: {kinds or 'there is no tensor among the arguments'}. Whole numbers are asked"
                " about where an nn.Embedding reads them, and none does here."
            )

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Let embeddings return what `answer` is given, inside this block."""
        handles = [
            module.register_forward_hook(partial(self._embed, path))
            for path, module in self._example.model.named_modules()
            if isinstance(module, nn.Embedding)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def answer(self, points: Sequence[Tensor]) -> Tensor:
        """Return the answer `[n]` with `points` in place of the leaves; only inside `watched`."""
        self._calls = {}
        pairs = list(zip(self.all, points, strict=True))
        self._instead = {(leaf.embedding, leaf.call): point for leaf, point in pairs if leaf.embedding is not None}
        given = {leaf.input: point for leaf, point in pairs if leaf.embedding is None}
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
            names = " and ".join(dict.fromkeys(repr(leaf.input) for leaf in self.all))
            raise InspectionError(
                f"The answer has no gradient with respect to {names}: the output does not depend on it, or through something"
                ' without a gradient (detach, argmax, no_grad). method="occlusion" needs none.'
            )
        return [
            torch.zeros_like(point) if gradient is None else gradient
            for point, gradient in zip(followed, found, strict=True)
        ]

    def baselines(self, baseline: object) -> list[Tensor]:
        """Return what each leaf is compared with.

        Args:
            baseline: None is 0, also as an embedding. A number or a tensor that broadcasts to the input; a tuple of them
                for several inputs. Of whole numbers, a token whose embedding is taken.

        Raises:
            ArgumentError: If it does not fit.
        """
        names = list(dict.fromkeys(leaf.input for leaf in self.all))
        listed = baseline if isinstance(baseline, tuple) else (baseline,) * len(names)
        if len(listed) != len(names):
            raise ArgumentError(f"baseline has {len(listed)} values for {len(names)} inputs: {', '.join(names)}.")
        given = dict(zip(names, listed, strict=True))
        return [self._baseline(leaf, given[leaf.input]) for leaf in self.all]

    def merged(self, values: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return the values of leaves in the shape of the inputs: those of an embedding summed over its last dimension."""
        merged: dict[str, Tensor] = {}
        for leaf, value in zip(self.all, values, strict=True):
            own = value if leaf.embedding is None else value.sum(-1)
            merged[leaf.input] = merged[leaf.input] + own if leaf.input in merged else own
        return merged

    def _baseline(self, leaf: Leaf, given: object) -> Tensor:
        if given is None:
            return torch.zeros_like(leaf.start)
        if not isinstance(given, (int, float, Tensor)) or isinstance(given, bool):
            raise ArgumentError(
                f"baseline must be a number or a tensor for the input {leaf.input!r}, not {shown(given)}."
            )
        shape = self._example.inputs[leaf.input].shape
        try:
            value = torch.as_tensor(given, device=leaf.start.device).expand(shape)
        except RuntimeError:
            size = list(given.shape) if isinstance(given, Tensor) else given
            raise ArgumentError(
                f"The baseline {size} does not fit the input {leaf.input!r}, which has the shape {list(shape)}."
            ) from None
        if leaf.module is None:
            return value.to(leaf.start.dtype)
        if value.is_floating_point() or bool(((value < 0) | (value >= leaf.module.num_embeddings)).any()):
            raise ArgumentError(
                f"The baseline of the input {leaf.input!r} is a token from 0 to {leaf.module.num_embeddings - 1}, not"
                f" {shown(given)}."
            )
        return leaf.module.forward(value).detach()

    def _embed(self, path: str, module: nn.Embedding, args: tuple[Any, ...], output: object) -> object:
        call = self._calls[path] = self._calls.get(path, -1) + 1
        if self._instead:
            return self._instead.get((path, call), output)
        if args and isinstance(args[0], Tensor) and isinstance(output, Tensor):
            for name, own in self._origins(args[0]):
                self._read.append((Leaf(name, path, call, output.detach(), module), own))
        return output

    def _origins(self, ids: Tensor) -> Iterator[tuple[str, bool]]:
        """Yield the inputs of whole numbers with the values of `ids`, and whether `ids` is the input itself."""
        for name, value in self._example.received.items():
            if not value.is_floating_point() and value.dtype != torch.bool and value.shape == ids.shape:
                own = value.data_ptr() == ids.data_ptr()
                if own or torch.equal(value.to(ids), ids):
                    yield name, own
