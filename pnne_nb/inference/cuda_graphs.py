"""Runs a model on a GPU by replaying recorded CUDA graphs: one launch instead of one per kernel."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from pnne_nb.errors import TrainingError

MOST = 8
"""Graphs that are kept, one for each kind of inputs; each holds memory of its own."""

WARM_UP = 3
"""Calls before a graph is recorded: libraries choose their kernels and take their memory at the first ones."""

Key: TypeAlias = tuple[Any, ...]


class _Recorded(NamedTuple):
    """A recorded graph, the tensors that it reads in the order of the arguments' leaves, and the outputs that it writes."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    outputs: Any


@final
class CudaGraphs:
    """Calls `model`, in eval mode on the CUDA device `device`, by replaying a graph recorded with inputs of the same sizes.

    Inputs are copied into memory that stays, and outputs out of it, so that each call has results of its own. Not safe for
    several threads.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._model, self._device = model, device
        self._recorded: OrderedDict[Key, _Recorded] = OrderedDict()

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        leaves, form = pytree.tree_flatten((inputs, named))
        key = (form, *map(_kind, leaves))
        recorded = self._recorded.get(key)
        if recorded is None:
            recorded = self._recorded[key] = self._record(inputs, named)
            if len(self._recorded) > MOST:
                self._recorded.popitem(last=False)
        self._recorded.move_to_end(key)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        for held, given in zip(recorded.inputs, tensors, strict=True):
            held.copy_(given)
        recorded.graph.replay()
        return pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, recorded.outputs)

    def _record(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> _Recorded:
        """Record a graph for inputs of these sizes, unless the model does what no graph can hold, such as looking at its data."""
        kept = pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, (inputs, dict(named)))
        cached = torch.is_autocast_cache_enabled()
        # A weight that autocast keeps in lower precision is freed at the end of the call, and a graph would read it later.
        torch.set_autocast_cache_enabled(False)
        try:
            with torch.cuda.device(self._device):
                side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch does not say
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    for _ in range(WARM_UP):
                        self._model(*kept[0], **kept[1])
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    outputs = self._model(*kept[0], **kept[1])
        except RuntimeError as error:
            if "captur" not in str(error).casefold():
                raise
            raise TrainingError(
                "The model cannot be recorded as a CUDA graph, because it looks at its data or waits for the GPU while it "
                f"runs: leave out cuda_graphs=True. ({str(error).splitlines()[0]})"
            ) from error
        finally:
            torch.set_autocast_cache_enabled(cached)
        return _Recorded(graph, [leaf for leaf in pytree.tree_leaves(kept) if isinstance(leaf, Tensor)], outputs)


def _kind(leaf: Any) -> object:
    """Return the key of a graph for a value: sizes and type of a tensor, or any other value itself."""
    return (leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf
