"""Large products are replaced by numbers made of a digest of their operands, where these prove as much."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import pnne_nb as pn
from pnne_nb.compiler.analysis import dispatch_modes
from pnne_nb.compiler.analysis.dispatch_modes import DigestedProducts, Digests, has_large_products
from pnne_nb.compiler.analysis.verify import Check, compare
from pnne_nb.compiler.weights.deepcopy import Shared


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace products of any size."""
    for name, value in (("LEAST_PRODUCTS", 0), ("LEAST_SHARE", 0), ("MANY_INPUTS", 0)):
        monkeypatch.setattr(dispatch_modes, name, value)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


PRODUCTS: list[tuple[Callable[..., Tensor], list[Tensor]]] = [
    (torch.mm, [numbers(3, 4), numbers(4, 5)]),
    (torch.bmm, [numbers(2, 3, 4), numbers(2, 4, 5)]),
    (torch.matmul, [numbers(2, 3, 4), numbers(4, 5)]),
    (torch.baddbmm, [numbers(2, 3, 5), numbers(2, 3, 4), numbers(2, 4, 5)]),
    (F.linear, [numbers(2, 3, 4), numbers(5, 4), numbers(5)]),
    (F.conv1d, [numbers(2, 3, 9), numbers(4, 3, 3)]),
    (F.conv2d, [numbers(2, 3, 9, 9), numbers(4, 3, 3, 3), numbers(4)]),
    (F.conv_transpose2d, [numbers(2, 3, 5, 5), numbers(3, 4, 3, 3)]),
    (F.scaled_dot_product_attention, [numbers(1, 2, 6, 8), numbers(1, 2, 6, 8, seed=1), numbers(1, 2, 6, 8, seed=2)]),
]


@pytest.mark.parametrize(
    ("product", "operands", "context"),
    [
        *((*each, context) for each in PRODUCTS for context in (torch.enable_grad, torch.no_grad)),
        *((*each, torch.inference_mode) for each in PRODUCTS[:-2]),  # where the others do not come apart
    ],
)
def test_each_bit_of_each_operand_counts(
    product: Callable[..., Tensor], operands: list[Tensor], context: Callable[[], Any]
) -> None:
    def run(changed: int | None = None) -> Tensor:
        given = [each.clone() for each in operands]
        if changed is not None:
            last = given[changed].view(-1)[-1:]
            last.copy_(torch.nextafter(last, last + 1))
        with DigestedProducts(Digests()), context():
            return product(*given)

    computed, found = product(*operands), run()
    assert found.shape == computed.shape
    assert found.dtype == computed.dtype
    assert not torch.allclose(found, computed)
    assert torch.equal(found, run())
    assert all(not torch.equal(found, run(changed)) for changed in range(len(operands)))


@pytest.mark.parametrize(("product", "operands"), PRODUCTS)
def test_gradients_go_by_all_operands(product: Callable[..., Tensor], operands: list[Tensor]) -> None:
    def run(scale: float, changed: int | None = None) -> list[Tensor]:
        given = [(each + (index == changed)).requires_grad_() for index, each in enumerate(operands)]
        with DigestedProducts(Digests()):
            (product(*given) * scale).sum().backward()  # type: ignore[no-untyped-call]  # torch does not say
        return [each.grad for each in given if each.grad is not None]

    first = run(1.0)
    assert all(map(torch.equal, first, run(1.0)))
    assert not any(map(torch.equal, first, run(2.0)))


def test_a_shared_weight_is_read_again_once_it_is_written() -> None:
    layer, digests = nn.Linear(4, 4, bias=False), Digests()
    digests.share(layer, layer)
    x = numbers(3, 4)
    with torch.no_grad(), DigestedProducts(digests):
        first, same = layer(x), layer(x)
        layer.weight.data[0, 0] += 1
        changed = layer(x)
    assert torch.equal(first, same)
    assert not torch.equal(first, changed)


@pytest.mark.parametrize(
    "read",
    [
        lambda y: bool(y.sum() > 0),
        lambda y: y.max().item(),
        lambda y: y[y > 0],
        lambda y: y.nonzero(),
        lambda y: torch.equal(y, y),
    ],
)
def test_values_that_are_not_computed_cannot_be_read(read: Callable[[Tensor], Any]) -> None:
    with DigestedProducts(Digests()) as products:
        read(numbers(3, 4))  # before any product
        y = numbers(3, 4) @ numbers(4, 4)
        with pytest.raises(dispatch_modes.ReadsError, match="reads values"):
            read(y)
    assert not products.is_certain


STEPS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda y, x: y.relu_(),
    lambda y, x: y + x,
    lambda y, x: y.add_(x),
    lambda y, x: y.mul_(0.5),
    lambda y, x: y.t().contiguous(),
    lambda y, x: y.t().reshape(-1).view(4, 4),
    lambda y, x: y.softmax(-1),
    lambda y, x: F.layer_norm(y, (4,)),
    lambda y, x: F.batch_norm(y, None, None, training=True),
    lambda y, x: F.dropout(y, 0.1),
    lambda y, x: y.masked_fill(x > 0, 0.25),
    lambda y, x: torch.where(y > 0, y, x),
    lambda y, x: y.gather(1, x.argsort(1)),
    lambda y, x: y[:, [2, 0, 1, 3]],
    lambda y, x: torch.cat(y.chunk(2, dim=1)[::-1], dim=1),
    lambda y, x: y.double().float(),
    lambda y, x: torch.stack(y.unbind(0)[::-1]),
    lambda y, x: y.max(dim=0, keepdim=True).values + x,
    lambda y, x: torch.empty_like(y).copy_(y),
    lambda y, x: torch.zeros_like(y).index_copy_(0, torch.tensor([1, 3, 0, 2]), y),
    lambda y, x: torch.randn_like(y) + y,
    lambda y, x: (y @ x).sigmoid(),
    lambda y, x: y.index_fill_(0, torch.tensor([2]), 0.75) * x,
]
"""Steps of a program on two matrices, `[4, 4]`: views, what works in place, what draws, and what has to be computed."""


def written(y: Tensor, part: Tensor) -> Tensor:
    y[1:3] = part[:2]
    return y


@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_what_follows_from_a_product_goes_by_all_that_it_is_computed_from(context: Callable[[], Any]) -> None:
    chosen = random.Random(0)

    def run(steps: list[int], scale: float = 1.0, late: bool = False) -> tuple[Tensor, list[Tensor]]:
        x, y = numbers(4, 4), numbers(4, 4, seed=1) * scale
        held = [x.clone().requires_grad_(context is torch.enable_grad), torch.ones(4), torch.zeros(4)]
        with DigestedProducts(Digests()), context(), torch.random.fork_rng():
            torch.manual_seed(0)
            found = F.batch_norm(y @ held[0], held[2], held[1], training=True)
            for step in steps:
                found = STEPS[step](found.clone() if found.requires_grad else found, x)  # which backward passes need
            found = written(found.clone(), x if late else x * 2)
            if found.requires_grad:
                (found * x).sum().backward()  # type: ignore[no-untyped-call]  # torch does not say
        return found, [*held[1:], *(each.grad for each in held if each.grad is not None)]

    for _ in range(30):
        steps = chosen.choices(range(len(STEPS)), k=4)
        (found, kept), (again, same) = run(steps), run(steps)
        assert torch.equal(found, again), steps
        assert all(map(torch.equal, kept, same)), steps
        assert found.isfinite().all(), steps
        assert not torch.equal(found, run(steps, scale=1 + 1e-6)[0]), steps
        assert not torch.equal(found, run(steps, late=True)[0]), steps
        assert not any(torch.equal(each, other) for each, other in zip(kept, run(steps, 1 + 1e-6)[1], strict=True)), (
            steps
        )


def test_memory_that_is_taken_again_has_the_numbers_that_are_written_there() -> None:
    digests = Digests()
    with DigestedProducts(digests), torch.no_grad():
        for _ in range(20):
            y = numbers(64, 64) @ numbers(64, 64)
            assert not digests.is_written(y)
            del y
            x = torch.ones(64, 64)  # in the memory that has just become free
            assert digests.is_written(x)
            assert x.add(1).numpy().sum() == 2 * 64 * 64
    assert digests.is_written(x)


def test_a_nan_hides_what_it_was_computed_from() -> None:
    with DigestedProducts(Digests()) as products:
        _ = (numbers(3, 4) * float("nan")) @ numbers(4, 4)
    assert not products.is_certain


class Block(nn.Module):
    """Has a few products; what it does besides is told by its arguments."""

    def __init__(self, variant: str = "") -> None:
        super().__init__()
        self.variant = variant
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.fc1 = nn.Linear(64, 8)
        self.fc2 = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x)).relu()
        x = self.fc1(x.flatten(1))
        match self.variant:
            case "scaled":
                x = x * 1.0000001
            case "swapped":
                x = x.flip(0)
            case "detached":
                x = x.detach()
            case "detached in training":
                x = x.detach() if self.training else x
            case "in training":
                x = x + self.training
            case "without gradients":
                x = x if torch.is_grad_enabled() else x + 1
            case "by data":
                x = x + 1 if x.sum() > 0 else x
        found: Tensor = self.fc2(x)
        return found.log_softmax(-1)


def checked(one: nn.Module, other: nn.Module, x: Tensor, digests: Digests | None) -> list[Check]:
    other.load_state_dict(one.state_dict())
    copies = Shared(one, other).copies
    return list(compare(one, other, (x,), {}, "", copies, digests=digests))


@pytest.mark.parametrize(
    "variant",
    ["", "scaled", "detached", "detached in training", "in training", "without gradients", "by data", "swapped"],
)
def test_a_comparison_finds_what_one_that_computes_everything_finds(variant: str) -> None:
    torch.manual_seed(0)
    x = numbers(2, 3, 6, 6)
    pairs = [(Block(), Block(variant)), (Block(variant), Block(variant))]
    for one, other in pairs:
        computed, found = checked(one, other, x, None), checked(one, other, x, Digests())
        assert [(check.what, check.mode, check.equal) for check in found] == [
            (check.what, check.mode, check.equal) for check in computed
        ]


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Counts the convolutions that are computed, of which `DigestedProducts` lets none through."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        real = not any(isinstance(each, Tensor) and each.is_meta for each in args)
        self.count += real and func.overloadpacket is torch.ops.aten.convolution
        return func(*args, **(kwargs or {}))


def test_an_import_computes_a_large_product_a_few_times() -> None:
    net, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4)), numbers(2, 3, 6, 6)
    assert has_large_products(net, x)
    with Counting() as counting:
        graph = pn.from_module(net, x)
    # To observe it, in each of both for the comparison, and, twice, where inputs of another size are refused.
    assert counting.count <= 5
    assert graph.import_report.closed == 0


def test_what_is_compiled_computes_everything() -> None:
    compiled = nn.Sequential()
    compiled.add_module("_orig_mod", nn.Linear(2, 2))  # as torch.compile names it
    assert not has_large_products(compiled, numbers(2, 2))
