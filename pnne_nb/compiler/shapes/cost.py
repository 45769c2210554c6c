"""Computes the cost of a node: multiply-adds, and the memory of its weights and results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from pnne_nb.compiler.shapes.symbolic import Meta, Seen, Trials


def _recurrent_flops(inputs: torch.Tensor, by_input: torch.Tensor, by_state: torch.Tensor, *_: Any, **__: Any) -> int:
    """Return the operations of a recurrent layer on `[t, n, c]`: two matrix products for every element of the sequences."""
    return 2 * math.prod(inputs.shape[:-1]) * (by_input.numel() + by_state.numel())


_ATEN = torch.ops.aten
# On the CPU, an LSTM runs as one oneDNN operator, and attention as one of its own, which torch has no formulas for. The
# arguments that attention's formulas read come first in all of torch's forms of it.
_FORMULAS: dict[Any, Any] = {
    **flop_registry,
    _ATEN.mkldnn_rnn_layer: _recurrent_flops,
    _ATEN._scaled_dot_product_flash_attention_for_cpu: flop_registry[_ATEN._scaled_dot_product_flash_attention],
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: flop_registry[
        _ATEN._scaled_dot_product_flash_attention_backward
    ],
}

PIECES = 10_000
"""Most pieces that a trial cuts a tensor into: a graph file may ask for a hundred million."""

OPERATIONS = 30_000
"""Most operations of a trial; ``tensor_split`` makes one for each piece."""


class TooManyPiecesError(ValueError):
    """A node would make more than `PIECES` tensors, or run more than `OPERATIONS`."""


def _pieces(func: Any, args: tuple[Any, ...]) -> int:
    """Return into how many tensors an operator cuts one; the dispatcher leaves out defaults at the end of `args`."""
    match func:
        case torch.ops.aten.unbind.int:
            return int(args[0].shape[args[1] if len(args) > 1 else 0])
        case torch.ops.aten.split.Tensor | torch.ops.aten.unsafe_split.Tensor:
            return -(-int(args[0].shape[args[2] if len(args) > 2 else 0]) // max(1, int(args[1])))
    return 0


@final
class MultiplyAdds(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Counts the multiply-adds of matrix products, convolutions and attention inside a ``with`` block.

    The formulas are those of torch's ``FlopCounterMode``, which itself hooks every module of the process: it would
    slow down a training in another thread, and count it. This counts in its own thread only.

    Args:
        pieces: Most pieces of a tensor: a graph file, which is tried unasked, must not take all memory.
        operations: Most operations; `math.inf` for what a person runs.

    Attributes:
        count: Multiply-adds so far.

    Raises:
        TooManyPiecesError: In the block, if a tensor would be cut into more than `pieces`, or there are more than
            `operations`.
    """

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would import its compiler, which takes seconds, to keep it out of this mode. Code of torch.compile is
        # not run under it: shapes are tried on layers as they are.
        return False

    def __init__(self, *, pieces: float = PIECES, operations: float = OPERATIONS) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nor here
        self.count = 0
        self._limits = pieces, operations
        self._operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operator, or what it is made of, and add what it costs."""
        named = dict(kwargs or {})
        if isinstance(func, torch._ops.HigherOrderOperator) or func is torch.ops.prim.device.default:
            return NotImplemented  # the second: where a tensor without data lies, which it says itself
        self._operations += 1
        most, operations = self._limits
        if self._operations > operations:
            raise TooManyPiecesError(f"It would take more than {operations:,} operations")
        if (pieces := _pieces(func, args)) > most:
            raise TooManyPiecesError(
                f"It would cut a tensor into {pieces:,} pieces, and a node may return at most {most:,}"
            )
        formula = _FORMULAS.get(func._overloadpacket)
        if formula is None:
            with self:
                result = func.decompose(*args, **named)
            return func(*args, **named) if result is NotImplemented else result
        result = func(*args, **named)
        # A call that torch's formula does not foresee (it asserts what it expects) is a cost that is not known.
        with suppress(AssertionError, TypeError, ValueError):
            self.count += formula(*args, **named, out_val=result) // 2
        return result


@final
@dataclass(frozen=True)
class Cost:
    """Cost of a node.

    Attributes:
        parameters: Elements of its parameters.
        memory: Bytes of its parameters and buffers.
        mult_adds: Multiply-adds of one call, in each trial; a single number is the same in all of them.
        activation: Bytes of what it returns, likewise.
    """

    parameters: int = 0
    memory: int = 0
    mult_adds: Trials = (0,)
    activation: Trials = (0,)


FREE = Cost()


def total(costs: Iterable[Cost]) -> Cost:
    """Return the sum of costs."""
    listed = list(costs)
    return Cost(
        sum(cost.parameters for cost in listed),
        sum(cost.memory for cost in listed),
        _summed([cost.mult_adds for cost in listed]),
        _summed([cost.activation for cost in listed]),
    )


def share(seen: Trials, batch: Trials | None) -> int:
    """Return the share of one example in a figure that was measured in each trial.

    What is the same in every trial does not depend on the batch, and counts as a whole.

    Args:
        seen: The number in each trial.
        batch: The size of the batch in each trial; None if the batch is fixed.
    """
    if batch is None or len(set(seen)) == 1:
        return seen[0]
    return round(seen[0] / batch[0])


def weights(module: nn.Module) -> tuple[int, int]:
    """Return the number of parameters of a module, and the bytes of its parameters and buffers."""
    parameters = list(module.parameters())
    memory = sum(tensor.numel() * tensor.element_size() for tensor in (*parameters, *module.buffers()))
    return sum(parameter.numel() for parameter in parameters), memory


def state_bytes(module: nn.Module) -> int:
    """Return the bytes that ``state_dict`` holds, with memory that several tensors share counted once."""
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in module.state_dict().values()}.values())


def returned(results: Sequence[Seen]) -> Trials:
    """Return the bytes of a node's results in each trial."""
    return tuple(_bytes(result) for result in results)


def _bytes(seen: Seen) -> int:
    if isinstance(seen, Meta):
        return math.prod(seen.shape) * seen.dtype.itemsize
    if isinstance(seen, (tuple, list)):
        return sum(map(_bytes, seen))
    return 0


def _summed(counts: Sequence[Trials]) -> Trials:
    if not counts:
        return (0,)
    length = max(map(len, counts))
    return tuple(sum(count[min(trial, len(count) - 1)] for count in counts) for trial in range(length))
