"""Parts of a batch that are normalised together are what the whole batch is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from threading import Barrier, Thread
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.runtime.distributed.step.sync_batch_norm import join_batch_norms
from pnne_nb.runtime.faults.oom_recovery import OthersOutOfMemoryError


class _Table:
    """Processes that are threads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.given: dict[int, Tensor] = {}
        self.barrier = Barrier(count, timeout=60)


class _Seat:
    def __init__(self, table: _Table, rank: int, *, present: bool = True) -> None:
        self.count = table.count
        self.present = present
        self._table, self.rank = table, rank

    def add(self, tensor: Tensor) -> Tensor:
        """The sum over all threads, in the same order in each."""
        self._table.given[self.rank] = tensor
        self._table.barrier.wait()
        summed = torch.stack([self._table.given[rank] for rank in range(self.count)]).sum(0)
        self._table.barrier.wait()
        return summed

    def sum(self, values: Sequence[float]) -> list[float]:
        """Likewise."""
        summed: list[float] = self.add(torch.tensor(values, dtype=torch.float64)).tolist()
        return summed

    def total(self, value: float) -> float:
        """Likewise."""
        return self.sum([value])[0]

    def any(self, fact: bool) -> bool:
        """Likewise."""
        return self.sum([float(fact)])[0] > 0


def _at_once(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    results: list[Any] = [None] * len(acts)

    def run(rank: int) -> None:
        try:
            results[rank] = acts[rank]()
        except Exception as error:  # noqa: BLE001  it is looked at below
            results[rank] = error

    threads = [Thread(target=run, args=(rank,)) for rank in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


_LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "1d": (nn.BatchNorm1d(3), ()),
    "2d": (nn.BatchNorm2d(3, momentum=None), (4, 5)),
    "3d": (nn.BatchNorm3d(3, affine=False), (2, 2, 2)),
    "synchronised by torch on GPUs": (nn.SyncBatchNorm(3), (4,)),
    "without statistics": (nn.BatchNorm1d(3, track_running_stats=False), (4,)),
}


def _trained(layer: nn.Module, x: Tensor, counts: bool = True) -> tuple[Tensor, Tensor, nn.Module]:
    """Output and gradient of two steps; a part that does not count has a loss of zero."""
    x = x.clone().requires_grad_()
    for power in (2, 3):
        y = layer(x)
        (y.pow(power).sum() * float(counts)).backward()
    assert x.grad is not None
    return y.detach(), x.grad, layer


@pytest.mark.parametrize("name", _LAYERS)
@pytest.mark.parametrize("parts", [(3, 4), (1, 6), (7, 0)])
def test_parts_are_normalised_as_the_whole(name: str, parts: tuple[int, int]) -> None:
    original, shape = _LAYERS[name]
    layer = copy.deepcopy(original)
    x = torch.randn(7, 3, *shape, generator=torch.Generator().manual_seed(1)) * 2 + 5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.tensor([0.5, 1.0, 2.0]))
    reference = copy.deepcopy(layer) if not isinstance(layer, nn.SyncBatchNorm) else nn.BatchNorm1d(3)
    reference.load_state_dict(layer.state_dict())
    expected, gradient, _ = _trained(reference, x)
    table = _Table(2)
    acts = []
    for rank, part in enumerate(torch.split(x, list(parts))):
        own, counts = copy.deepcopy(layer), bool(len(part))
        join_batch_norms(own, _Seat(table, rank, present=counts))
        acts.append(lambda own=own, part=part, counts=counts: _trained(own, part if counts else x[:1], counts))
    made = _at_once(acts)
    real = [result for result, count in zip(made, parts, strict=True) if count]
    torch.testing.assert_close(torch.cat([y for y, _, _ in real]), expected)
    torch.testing.assert_close(torch.cat([grad for _, grad, _ in real]), gradient, rtol=1e-4, atol=1e-4)
    for _, _, own in made:
        assert own.state_dict().keys() == reference.state_dict().keys()
        torch.testing.assert_close(dict(own.named_buffers()), dict(reference.named_buffers()))
    for index, parameter in enumerate(reference.parameters()):
        summed = sum(list(own.parameters())[index].grad for _, _, own in made)
        torch.testing.assert_close(summed, parameter.grad, rtol=1e-4, atol=1e-4)
    joined = made[0][2].eval()
    torch.testing.assert_close(joined(x), reference.eval()(x))


def test_one_example_in_all_is_too_few() -> None:
    layer = nn.BatchNorm1d(3)
    join_batch_norms(layer, _Seat(_Table(1), 0))
    with pytest.raises(ValueError, match=r"Expected more than 1 value per channel when training, got input size"):
        layer(torch.ones(1, 3))


def test_nobody_waits_for_a_process_that_is_out_of_memory() -> None:
    table = _Table(2)
    layer = nn.BatchNorm1d(3)
    join_batch_norms(layer, _Seat(table, 0))
    others = _Seat(table, 1)
    found = _at_once([lambda: layer(torch.ones(4, 3)), lambda: others.sum([1.0])])
    assert isinstance(found[0], OthersOutOfMemoryError)
    assert found[1] == [1.0]
