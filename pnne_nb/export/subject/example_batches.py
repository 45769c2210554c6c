"""Inputs for an export and its proof, from the user's data or generated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, default_collate

from pnne_nb.compiler import blame
from pnne_nb.compiler.analysis.buffers import kept_buffers
from pnne_nb.compiler.analysis.example_inputs import spread_inputs
from pnne_nb.errors import Diagnostic, ExportError, shown
from pnne_nb.export.formats.base import TensorInfo, batch_size_of, free_sizes

SAMPLES = 16
"""At most so many samples of the data are compared."""

BATCH = 3
"""Samples in the example that a model is traced with."""

LEVELS: tuple[tuple[int, ...], ...] = (
    (7, 11, 13, 17, 19, 23),
    (12, 20, 28, 36, 44, 52),
    (24, 40, 56, 72, 88, 104),
    (5, 6, 4, 9, 10, 14),
    (48, 80, 112, 144, 176, 208),
    (96, 160, 224, 288, 352, 416),
)  # fmt: skip
"""What free sizes are tried with, until the model takes them: primes first, for models that ask for nothing; then multiples
of 4, 8, 16 and 32, for those that halve a size several times; small ones, for those with a table of positions."""

SEED = 0


def first_batch(data: object, names: Sequence[str] | None, most: int = SAMPLES) -> tuple[Tensor, ...] | None:
    """Return the inputs of the first batch of `data`, at most `most` samples; None if there is none.

    Args:
        data: A tensor or an array; a tuple of them, in the order of the inputs; a mapping from their names; a
            ``Dataset``, a ``DataLoader`` or another iterable of such batches. A target behind the inputs is left out.
        names: Names of the inputs, if they are known.
        most: Samples that are kept.

    Raises:
        ExportError: If it is nothing of the kind.
    """
    if data is None:
        return None
    if isinstance(data, Dataset):
        count = min(most, len(data))  # type: ignore[arg-type]  # datasets without a length say so
        data = default_collate([data[index] for index in range(count)])
    elif isinstance(data, (DataLoader, Iterator)):
        data = next(iter(data), None)
        if data is None:
            raise ExportError("The data has no batch, so that nothing can be compared with it.")
    if isinstance(data, list) and data and isinstance(data[0], list | tuple):
        data = (tuple(data[0]), *data[1:])  # a loader makes a list of a pair
    data = spread_inputs(data, names)
    if isinstance(data, Mapping):
        if names is not None and (missing := [name for name in names if name not in data]):
            raise ExportError(f"The data has no {', '.join(map(repr, missing))}; it has {', '.join(map(repr, data))}.")
        data = tuple(data[name] for name in names or data)
    parts = [data] if isinstance(data, (Tensor, np.ndarray)) else data
    if not isinstance(parts, (tuple, list)) or not parts:
        raise ExportError(f"data must be tensors, arrays, a Dataset or a DataLoader, not {shown(data)}.")
    count = len(parts) if names is None else len(names)
    if len(parts) < count:
        raise ExportError(f"The data has {len(parts)} tensors, and the model takes {count}: {', '.join(names or ())}.")
    if names is not None:
        for name, part in zip(names, parts, strict=False):
            require_tensors(name, part)
    return tuple(_tensor(part)[:most] for part in parts[:count])


def require_tensors(name: str, part: object) -> None:
    """Raise an error if an input is no tensor but a collection of them, for which a file has no place.

    Raises:
        ExportError: It is one; the message says how to write the model.
    """
    if isinstance(part, Mapping | tuple):
        inside = ", ".join(map(str, part)) if isinstance(part, Mapping) else ", ".join("abcdefgh"[: len(part)])
        message = (
            f"The model takes {name} as a {type(part).__name__}, and a file takes tensors. Give it a model whose forward has "
            f"one argument for each tensor, as in forward(self, {inside}), which calls this one."
        )
        raise ExportError(message, [Diagnostic("data-mismatch", message, name)])


def _tensor(part: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(part).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ExportError(f"The data holds {shown(part)}, of which no tensor can be made: {error}") from error
    # numpy's floats are doubles by default, and no layer takes them.
    return tensor.float() if tensor.dtype == torch.float64 and not isinstance(part, Tensor) else tensor


class BatchMaker:
    """Makes valid inputs of given sizes for a model.

    Args:
        model: The model, in eval mode on the CPU.
        inputs: Its inputs.
        limits: The smallest and the largest value of free sizes.
        seen: By the name of an input, whole numbers that it takes: those of the data.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Sequence[TensorInfo],
        limits: Mapping[str, tuple[int, int | None]],
        seen: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._model, self._inputs, self._limits, self._seen = model, inputs, limits, seen or {}
        tables = [part.num_embeddings for part in model.modules() if isinstance(part, (nn.Embedding, nn.EmbeddingBag))]
        # Whole numbers are most often looked up in tables; in the smallest one, every index below its length is valid.
        # Lengths of sequences are at least 1.
        self._ranges = list(dict.fromkeys([(0, min(tables, default=2)), (0, 2), (1, 2)]))
        self._settled = not any(is_whole(getattr(torch, info.dtype)) and info.name not in self._seen for info in inputs)
        self._failed: Exception | None = None

    def example(self) -> dict[str, int]:
        """Return values of the free sizes with which the model runs: none is 0 or 1, and no two are equal.

        Raises:
            ExportError: If none of those that were tried fit.
        """
        names = free_sizes(self._inputs)
        batch = batch_size_of(self._inputs)
        others = [name for name in names if name != batch]
        start: dict[str, int] = {}
        if batch is not None:
            smallest, largest = self._limits.get(batch, (1, None))
            start[batch] = max(2, min(max(BATCH, smallest), largest or BATCH))
        fixed = {size for info in self._inputs for size in info.shape if isinstance(size, int)}
        for values in self._choices(others, {*start.values(), *fixed}):
            sizes = {**start, **values}
            if self.accepts(sizes):
                return sizes
        listed = ", ".join(names)
        said = str(self._failed)[:300]
        node = None if self._failed is None else blame(self._failed)
        hint = "Pass data=..., or values: sizes={...}."
        raise ExportError(
            f"No example was found that the model takes{f' for the free sizes {listed}' if names else ''}: pass "
            f"data=..., or values: sizes={{...}}. The last trial said: {said}",
            [Diagnostic("no-example", f"The model took no example: {said}", node, hint=hint)],
        )

    def accepts(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the model runs with these sizes; the first call finds a valid range of integers."""
        for place, _ in enumerate(self._ranges[:1] if self._settled else self._ranges):
            try:
                with torch.no_grad(), kept_buffers(self._model):
                    self._model(*self._made(sizes, self._ranges[place]))
            except Exception as error:  # noqa: BLE001  # whatever it is, other numbers and sizes are tried
                self._failed = self._failed if place else error
            else:
                self._ranges, self._settled = self._ranges[place:], True
                return True
        return False

    def tensors(self, sizes: Mapping[str, int]) -> tuple[Tensor, ...]:
        """Return inputs of these sizes: floats are normal, integers any that are valid."""
        if not self._settled:
            self.accepts(sizes)
        return self._made(sizes, self._ranges[0])

    def _made(self, sizes: Mapping[str, int], whole: tuple[int, int]) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(SEED)
        made = []
        for info in self._inputs:
            shape = [sizes[size] if isinstance(size, str) else size for size in info.shape]
            dtype = getattr(torch, info.dtype)
            if not is_whole(dtype) and dtype != torch.bool:
                basic = torch.complex64 if dtype.is_complex else None
                made.append(torch.randn(shape, generator=generator, dtype=basic).to(dtype))
            elif dtype != torch.bool and info.name in self._seen:
                values = self._seen[info.name].reshape(-1)
                made.append(values[torch.randint(0, len(values), shape, generator=generator)])
            else:
                low, high = (0, 2) if dtype == torch.bool else whole
                made.append(torch.randint(low, high, shape, generator=generator).to(dtype))
        return tuple(made)

    def other_values(self, name: str, sizes: Mapping[str, int], smallest: int, largest: int | None) -> list[int]:
        """Return up to two other valid values of a size, with the other sizes as in the example."""
        value = sizes[name]
        level = next((level for level in LEVELS if value in level), ())
        near = [value - 1, value + 1, value + 2, 2 * value, value + 4, value + 8, value + 16, value + 32]
        candidates = dict.fromkeys([*level[:4], *near])
        taken = {*sizes.values(), 1, 0}
        found: list[int] = []
        for other in candidates:
            fits = smallest <= other and (largest is None or other <= largest)
            if fits and other not in taken and self.accepts({**sizes, name: other}):
                found.append(other)
            if len(found) == 2:
                break
        return found

    def _choices(self, names: Sequence[str], taken: set[int]) -> Iterator[dict[str, int]]:
        def values(level: Sequence[int], name: str) -> list[int]:
            smallest, largest = self._limits.get(name, (1, None))
            fits = [each for each in level if smallest <= each and (largest is None or each <= largest)]
            inside = range(max(smallest, 2), (largest or smallest + 8) + 1)
            return fits or (list(itertools.islice(inside, 8)) if name in self._limits else [])

        for level in LEVELS:
            for avoid in (taken, set[int]()):
                chosen: dict[str, int] = {}
                for name in names:
                    fit = [each for each in values(level, name) if each not in avoid and each not in chosen.values()]
                    if fit:
                        chosen[name] = fit[0]
                if len(chosen) == len(names):
                    yield chosen
        # Sizes may ask for different things: one any length, another a multiple of eight.
        mixed = itertools.product(*[[level[place] for level in LEVELS] for place, _ in enumerate(names[:3])])
        yield from (
            dict(zip(names, each, strict=True)) for each in mixed if 1 < len(names) <= 3 and len({*each}) == len(each)
        )


def is_whole(dtype: torch.dtype) -> bool:
    """Return whether an element type is one of whole numbers."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
