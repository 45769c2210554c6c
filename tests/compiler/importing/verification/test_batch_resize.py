"""The inputs of other sizes are such that a module can read them, or it refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

import pnne_nb as pn
from pnne_nb.compiler import IncrementalAnalysis
from pnne_nb.compiler.importing.verification.batch_resize import batch_of, resized, with_size
from pnne_nb.compiler.shapes.infer import TensorSpec, infer
from pnne_nb.graph.layout.texts import shape_label

FLAT, OFFSETS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 0]), torch.tensor([0, 3, 4])


def test_what_is_in_order_stays_so() -> None:
    for size in range(2, 9):
        given = torch.arange(8), torch.arange(size), torch.arange(15).reshape(3, 5)
        for change in resized(given):
            assert all(bool((each.diff(dim=-1) >= 0).all()) for each in change.of(given))


def test_bags_are_offered_whole() -> None:
    """Offsets that go down have a kernel leave parts of the result unwritten, which then holds anything."""
    offered = [change.of((FLAT, OFFSETS)) for change in resized((FLAT, OFFSETS))]
    assert [offsets.tolist() for _, offsets in offered] == [[0, 3, 4], [0, 3, 4, 4], [0, 3, 4], [0, 3, 4], [0, 3, 4]]
    assert [len(flat) for flat, _ in offered] == [4, 8, 9, 7, 1]
    bags = nn.EmbeddingBag(6, 3, mode="sum")
    one_by_one = nn.EmbeddingBag(6, 3, mode="sum", include_last_offset=True, _weight=bags.weight.detach())
    with pytest.raises(RuntimeError, match="offsets"):
        bags(*offered.pop())  # which torch refuses
    for flat, offsets in offered:
        with torch.no_grad():
            expected = one_by_one(flat, torch.cat([offsets, torch.tensor([len(flat)])]))
            assert torch.equal(bags(flat, offsets), expected)


def test_a_size_is_another_one_wherever_it_occurs() -> None:
    x = torch.arange(9).reshape(3, 3)
    made, kept = with_size((x, {"text": "3"}), 3, 4)
    assert made.tolist() == [[0, 1, 2, 2], [3, 4, 5, 5], [6, 7, 8, 8], [6, 7, 8, 8]]
    assert kept == {"text": "3"}
    assert with_size(x, 3, 2).tolist() == [[0, 1], [3, 4]]


class Attending(nn.Module):
    """Attention over ids, with a table of positions, heads of as many features as there are steps, and a split."""

    def __init__(self) -> None:
        super().__init__()
        self.ids, self.qkv = nn.Identity(), nn.Linear(12, 36)
        self.tokens, self.positions = nn.Embedding(20, 12), nn.Embedding(8, 12)

    def forward(self, ids: Tensor) -> Any:
        length = ids.shape[1]
        x = self.tokens(self.ids(ids)) + self.positions(torch.arange(length))  # the argument is called as a layer is
        q, k, v = (each.unflatten(-1, (2, 6)).transpose(1, 2) for each in self.qkv(x).split(12, dim=-1))
        scores = (q @ k.mT).masked_fill(torch.ones(length, length).triu(1).bool(), -1e9).softmax(-1)
        return (scores @ v).transpose(1, 2).flatten(2)


SIZES = [
    (Attending(), torch.randint(20, (2, 6)), [("N", 3), ("T", 3)], {"N×T", "N×T×12", "N×T×36", "N×2×T×T", "N×2×T×6"}),
    (nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 2)), torch.rand(4, 1, 8, 8), [("N", 5), *[None] * 3],
     {"N×1×8×8", "N×4×6×6", "N×144", "N×2"}),
    (nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1), nn.Upsample(scale_factor=3)),
     torch.rand(2, 1, 28, 28), [("N", 3), None, ("H", 14), ("H", 14)],
     {"N×4×H/2×H/2", "N×4×⌈H/4⌉×⌈H/4⌉", "N×4×~21×~21"}),
    (nn.Linear(4, 2), torch.rand(3, 3, 4), [("N", 4), ("T", 4), None], {"N×T×4", "N×T×2"}),
]  # fmt: skip


@pytest.mark.parametrize(("net", "x", "free", "labels"), SIZES)
def test_sizes_that_the_proof_varied_have_names_in_a_picture(
    net: nn.Module, x: Tensor, free: list[Any], labels: set[str]
) -> None:
    graph = pn.from_module(net, x)
    (entry,) = (node for node in graph.nodes.values() if node.type == "Input")
    assert entry.origin is not None
    assert entry.origin.sizes == tuple(free)
    assert entry.properties["shape"] == tuple(x.shape)  # what is compiled is for the example, as before
    named = infer(graph, named=True).tensors.values()
    assert labels <= {shape_label(spec.shape, "float32") for spec in named}
    assert all(spec.named is None for spec in pn.infer_shapes(graph).values())
    again = pn.NodeGraph.from_json(graph.to_json())
    assert min(labels, key=len) in again._repr_mimebundle_()["image/svg+xml"]


def test_no_size_is_named_that_an_edit_has_fixed() -> None:
    graph = pn.from_module(nn.Sequential(nn.Linear(4, 6), nn.ReLU()), torch.rand(2, 8, 4))
    with IncrementalAnalysis(graph) as analysis:
        assert analysis.shapes["1.output"].named == ("N", "T", 6)
        graph.add("Linear", name="over", in_features=8, out_features=3)
        graph.add("transpose", name="turned", dim0=1, dim1=2)
        graph.connect("1", "turned")
        graph.connect("turned", "over")
        assert analysis.shapes["over.output"] == TensorSpec((2, 6, 3), "float32")
        graph.set(graph.find(type="Input")[0], shape=("B", 8, 4))
        assert analysis.shapes["1.output"] == TensorSpec(("B", 8, 6), "float32")


class Neighbours(nn.Module):
    """Sums what is near in a graph that is given by its edges."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, edges: Tensor, weights: Tensor, x: Tensor) -> Any:
        near = torch.sparse_coo_tensor(edges, weights, (x.shape[0], x.shape[0]))
        checked.append(_checks())
        return near @ self.layer(x)


checked: list[bool] = []


def _checks() -> bool:
    return bool(torch.sparse.check_sparse_tensor_invariants.is_enabled())  # type: ignore[no-untyped-call]  # torch leaves it untyped


@pytest.mark.filterwarnings("ignore:Sparse")
def test_indices_outside_of_a_sparse_tensor_are_refused_not_read() -> None:
    """With half of the nodes, edges lead to nodes that are not there: torch alone reads, or dies, there."""
    checked.clear()
    torch.manual_seed(0)
    net, edges = Neighbours(), torch.tensor([[0, 1, 2, 5, 5], [5, 4, 3, 2, 0]])
    args = edges, torch.rand(5), torch.rand(6, 4)
    graph = pn.from_module(net, args)
    report = pn.verify(graph, net, args)
    assert report, str(report)
    assert report.opaque == {}
    assert any(checked)
    assert not checked[0]  # as it is called
    assert not _checks()


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_count_of_examples_reads_no_further_either() -> None:
    checked.clear()
    assert batch_of(Neighbours(), (torch.tensor([[0, 5], [5, 9]]), torch.rand(2), torch.rand(6, 4)), {}) is None
    assert batch_of(nn.Linear(4, 3), (torch.rand(2, 4),), {}) == 2


def test_the_first_size_changes_alone_where_another_is_the_same_by_chance() -> None:
    changed = [(2, 2), (2, 4), (5, 5), (5, 4), (3, 3), (3, 4), (1, 1), (1, 4)]

    def shapes(*shape: int) -> list[tuple[int, ...]]:
        given = torch.zeros(shape)
        return [tuple(change.of(given).shape) for change in resized(given)]

    assert shapes(4, 4) == changed
    assert shapes(4, 3) == [(2, 3), (4, 4), (5, 3), (3, 3), (1, 3)]
    assert shapes(1, 3) == [(1, 4), (2, 3)]
    assert list(resized(torch.tensor(1.0))) == []


class Choosing(nn.Module):
    """Chooses from a list of Python's by what remains of a size, which that takes unseen."""

    def __init__(self, parts: int, only_in: bool | None = None) -> None:
        super().__init__()
        self.parts = [nn.Parameter(torch.randn(4, 4)) for _ in range(parts)]
        self.first = nn.Linear(4, 4)
        self.only_in = only_in

    def forward(self, x: Tensor) -> Any:
        if self.only_in in (None, self.training):
            return self.first(x) @ self.parts[x.shape[0] % len(self.parts)]
        return self.first(x)


@pytest.mark.parametrize("rows", [1, 2, 4, 6])
@pytest.mark.parametrize("make", [lambda: Choosing(2), lambda: Choosing(3), lambda: Choosing(2, only_in=True)])
def test_an_item_that_goes_by_the_remainder_of_a_size_is_that_of_each_size(
    make: Callable[[], nn.Module], rows: int
) -> None:
    """Half of four leaves the same of two as four does, and half of six the same of three."""
    net = make()
    model = pn.compile(pn.from_module(net, torch.randn(rows, 4)), reuse=net)
    for other in range(1, 8):
        for training in (False, True):
            x = torch.randn(other, 4)
            assert torch.equal(model.train(training)(x), net.train(training)(x))


class OnesOfNumPy(nn.Module):
    """Makes an array as large as its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layer(x) + torch.from_numpy(np.ones((x.shape[0], 4), dtype=np.float32))
        return made


def test_an_array_of_an_example_is_no_constant_of_other_sizes() -> None:
    """One row would be added to four, as if it were there four times."""
    net, x = OnesOfNumPy(), torch.randn(4, 4)
    model = pn.compile(pn.from_module(net, x), reuse=net)
    assert torch.equal(model(x), net(x))
    assert torch.equal(model(x[:1]), net(x[:1]))


def test_buffers_of_a_module_that_stays_whole_are_compared() -> None:
    class Doubled(nn.Module):
        def forward(self, w: Tensor) -> Tensor:
            return w * 2

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.scale = nn.Parameter(torch.ones(4))
            self.register_buffer("count", torch.zeros(()))
            parametrize.register_parametrization(self, "scale", Doubled())

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.layer(x) * self.scale if x.sum() < 1e9 else x
            return made

    net, x = Counting(), torch.randn(6, 4)
    model = pn.compile(pn.from_module(net, x), reuse=net)
    assert torch.equal(model(x), net(x))
