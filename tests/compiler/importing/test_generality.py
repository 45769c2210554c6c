"""Layers and functions of torch's, each called by a small net of its own: drawn, and equal in every way.

What is called stands for its kind: an operator that no list names, one with several results, one whose arguments mean
what they are, a layer of another element type, a layer that is the whole net.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import pnne_nb as pn
from pnne_nb.compiler.analysis.verify import compare


def rand(*sizes: int) -> Tensor:
    return torch.rand(sizes) * 0.8 + 0.1


class Calls(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: Any) -> Any:
        return self.call(*args)


class Around(nn.Module):
    """A net with a layer in it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner(*args, **kwargs)


def check(net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> str:
    """Import, save, read, compile and execute the source; return the source."""
    kwargs = kwargs or {}
    graph = pn.NodeGraph.from_json(pn.from_module(net, args, kwargs).to_json())
    report = pn.verify(graph, net, args, kwargs)
    assert report, str(report)
    assert report.opaque == {}
    model = pn.compile(graph, reuse=net)
    assert list(model.state_dict()) == list(net.state_dict())
    others = tuple(arg * 0.9 if isinstance(arg, Tensor) and arg.is_floating_point() else arg for arg in args)
    source = pn.to_source(graph)
    names: dict[str, Any] = {"__name__": "shown"}
    exec(compile(source, "<shown>", "exec"), names)  # that is what it is for
    shown = names[type(model).__name__]()
    shown.load_state_dict(net.state_dict())
    for made in (model, shown):
        for found in (*compare(net, made, args, kwargs), *compare(net, made, others, kwargs)):
            assert found.equal, f"{found}\n{source}"
    return source


X, Y, SQUARE, VECTOR = rand(3, 4).requires_grad_(), rand(3, 4), rand(4, 4) + 2 * torch.eye(4), rand(4)
LONG, MASK, IMAGE = torch.randint(1, 5, (3, 4)), rand(3, 4) > 0.5, rand(2, 4, 6, 6)
PLACES = torch.tensor([[0, 1, 2, 0], [2, 0, 1, 1], [1, 1, 0, 2]])

CALLS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    # Operators that no list of ours names.
    ("special entr", torch.special.entr, (X,)),
    ("special zeta", lambda x: torch.special.zeta(x + 1.5, 1.0), (X,)),
    ("special i0e", lambda x: torch.special.i0e(x) + torch.special.erfcx(x), (X,)),
    ("chebyshev", lambda x: torch.special.chebyshev_polynomial_t(x.detach(), 3), (X,)),
    ("hfft", lambda x: torch.fft.hfft(x, n=5, norm="ortho"), (X,)),
    ("rfftn", lambda x: torch.fft.rfftn(x, s=(2, 3)), (X,)),
    ("householder", torch.linalg.householder_product, (SQUARE, VECTOR)),
    ("solve_triangular", lambda x: torch.linalg.solve_triangular(x.tril(), x, upper=False), (SQUARE,)),
    ("matrix_power", lambda x: x.matrix_power(2), (SQUARE,)),
    ("renorm", lambda x: torch.renorm(x, 2, 0, 0.5), (X,)),
    ("fill_diagonal_", lambda x: (x * 1).fill_diagonal_(5), (X,)),
    ("exponential_", lambda x: torch.empty_like(x).exponential_() + x, (X,)),
    ("index_reduce", lambda x, y: torch.index_reduce(x, 0, torch.tensor([2, 0]), y[:2], "amax"), (X, Y)),
    ("lstm_cell", lambda x, h, w, u: torch.lstm_cell(x, (h, h), w, u), (X, rand(3, 5), rand(20, 4), rand(20, 5))),
    ("logsigmoid", F.logsigmoid, (X,)),
    ("elu_", lambda x: F.elu_(x * 1), (X,)),
    ("sum_to_size", lambda x: x.sum_to_size(1, 4), (X,)),
    ("bitwise_left_shift", lambda i: i.bitwise_left_shift(1), (LONG,)),
    # Several results under their names.
    ("max", lambda x: torch.max(x, dim=1), (X,)),
    ("a field of sort", lambda x: x.sort(1).values, (X,)),
    ("topk inside", lambda x: (x.topk(2), x), (X,)),
    ("eigh", lambda x: torch.linalg.eigh(x @ x.T), (SQUARE,)),
    ("slogdet", torch.linalg.slogdet, (SQUARE,)),
    ("lu", torch.linalg.lu, (SQUARE,)),
    ("aminmax", lambda x: torch.aminmax(x, dim=0), (X,)),
    # Arguments that mean what they are, and functions of two places.
    ("tensor_split", lambda x: torch.tensor_split(x, (1, 3), dim=1), (X,)),
    ("hsplit", lambda x: x.hsplit(2), (X,)),
    ("randint", lambda x: x + torch.randint(1, 5, (3, 4)), (X,)),
    ("argsort", lambda x: x.argsort(0, True), (X,)),
    ("std_mean", lambda x: torch.std_mean(x, 1, correction=0), (X,)),
    ("torch.kl_div", lambda x, y: torch.kl_div(x.log(), y), (X, Y)),
    ("torch.embedding", lambda w: torch.embedding(w, torch.tensor([2, 0])), (X,)),
    ("torch.rrelu", lambda x: torch.rrelu(x - 0.5), (X,)),
    ("torch.adaptive_max_pool1d", lambda x: torch.adaptive_max_pool1d(x, 2), (X,)),
    ("torch.batch_norm", lambda x, w: torch.batch_norm(x, w, w, w * 0, w, False, 0.1, 1e-5, False), (X, VECTOR)),
    ("where of a tensor", lambda x, m, y: x.where(m, y), (X, MASK, Y)),
    ("polygamma of a tensor", lambda x: x.polygamma(1), (X,)),
    ("nonzero as a tuple", lambda m: torch.nonzero(m, as_tuple=True), (MASK,)),
    ("to another's type", lambda x, y: x.to(y), (X, Y.double())),
    ("view as a type", lambda x: x.detach().view(torch.int32), (X,)),
    ("eq_", lambda x, y: (x * 1).eq_(y), (X, Y)),
    ("logical_not_", lambda x: (x * 1).logical_not_(), (X,)),
    ("a window", lambda x: x[:, :4] * torch.signal.windows.hann(4), (X,)),
    ("scatter by adding", lambda x, y: x.scatter(1, PLACES, y, reduce="add"), (X, Y)),
    # Sizes.
    ("the elements of a part of a shape", lambda x: x.reshape(-1, x.shape[1:].numel()), (IMAGE,)),
    ("the distance of sizes", lambda x: x * abs(x.shape[0] - x.shape[1]) + abs(x), (X,)),
    ("instance_norm by mode", F.instance_norm, (IMAGE,)),
]  # fmt: skip


@pytest.mark.parametrize(("call", "args"), [pytest.param(call, args, id=name) for name, call, args in CALLS])
def test_a_call_of_torchs(call: Callable[..., Any], args: tuple[Any, ...]) -> None:
    check(Calls(call), args)


SEQUENCE, IDS = rand(3, 4, 6), torch.tensor([[1, 2, 4], [4, 3, 0]])
FLAT, OFFSETS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 0]), torch.tensor([0, 3, 4])

WHOLE: list[tuple[str, Callable[[], nn.Module], tuple[Any, ...]]] = [
    ("rnn", lambda: nn.RNN(6, 5, nonlinearity="relu"), (SEQUENCE,)),
    ("lstm", lambda: nn.LSTM(6, 5, 2, batch_first=True, dropout=0.3, bidirectional=True), (SEQUENCE,)),
    ("lstm, projected", lambda: nn.LSTM(6, 5, proj_size=2), (SEQUENCE, (rand(1, 4, 2), rand(1, 4, 5)))),
    ("gru of one sequence", lambda: nn.GRU(6, 5), (rand(3, 6), rand(1, 5))),
    ("lstm cell", lambda: nn.LSTMCell(6, 5), (rand(3, 6), (rand(3, 5), rand(3, 5)))),
    ("rnn cell", lambda: nn.RNNCell(6, 5, bias=False), (rand(3, 6),)),
    ("instance norm", lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), (IMAGE,)),
    ("log sigmoid", nn.LogSigmoid, (X,)),
    ("bags", lambda: nn.EmbeddingBag(6, 3, mode="sum"), (FLAT, OFFSETS)),
    ("sparse bags", lambda: nn.EmbeddingBag(6, 3, mode="sum", sparse=True), (FLAT, OFFSETS)),
    ("weighted bags", lambda: nn.EmbeddingBag(6, 3, mode="sum"), (FLAT, OFFSETS, rand(8))),
    ("batch norm", lambda: nn.BatchNorm2d(4, dtype=torch.float64), (IMAGE.double(),)),
    ("conv", lambda: nn.Conv2d(4, 6, 3, padding="same", padding_mode="circular"), (IMAGE,)),
    ("attention", lambda: nn.MultiheadAttention(8, 2, add_bias_kv=True), (rand(5, 2, 8),) * 3),
]


@pytest.mark.parametrize(("make", "args"), [pytest.param(make, args, id=name) for name, make, args in WHOLE])
def test_a_layer_that_is_the_whole_net(make: Callable[[], nn.Module], args: tuple[Any, ...]) -> None:
    torch.manual_seed(0)
    check(make(), args)


class Packed(nn.Module):
    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.recurrent = kind(6, 5, bidirectional=True)

    def forward(self, x: Any, lengths: Any) -> Any:
        out, state = self.recurrent(pack_padded_sequence(x, lengths, enforce_sorted=False))
        padded, counted = pad_packed_sequence(out)
        return padded, counted, state


HELD: list[tuple[str, Callable[[], nn.Module], tuple[Any, ...]]] = [
    ("distance", lambda: nn.PairwiseDistance(p=1, keepdim=True), (X, Y)),
    ("unflatten", lambda: nn.Unflatten(1, torch.Size([2, 2])), (X,)),
    ("conv of doubles", lambda: nn.Conv1d(4, 6, 3, dtype=torch.float64), (rand(2, 4, 9).double(),)),
    ("complex conv", lambda: nn.Conv2d(4, 3, 3, dtype=torch.complex64), (torch.complex(IMAGE, IMAGE),)),
    ("prelu of halves", lambda: nn.PReLU(4).bfloat16(), (X.detach().bfloat16(),)),
    ("rnn of doubles", lambda: nn.RNN(6, 5).double(), (SEQUENCE.double(),)),
    ("linear, complex", lambda: nn.Linear(4, 3, dtype=torch.complex64), (torch.complex(Y, Y),)),
    ("attention of doubles", lambda: nn.MultiheadAttention(8, 2).double(), (rand(5, 2, 8).double(),) * 3),
    ("packed lstm", lambda: Packed(nn.LSTM), (SEQUENCE, torch.tensor([2, 3, 1, 2]))),
    ("packed gru", lambda: Packed(nn.GRU), (SEQUENCE, torch.tensor([2, 3, 1, 2]))),
]


@pytest.mark.parametrize(("make", "args"), [pytest.param(make, args, id=name) for name, make, args in HELD])
def test_a_layer_in_a_net(make: Callable[[], nn.Module], args: tuple[Any, ...]) -> None:
    torch.manual_seed(0)
    check(Around(make()), args)


def test_fields_of_an_adaptive_softmax() -> None:
    class Fields(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.adaptive = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0)

        def forward(self, x: Any, target: Any) -> Any:
            found = self.adaptive(x, target)
            return found.output, found.loss

    check(Fields(), (rand(4, 8), torch.tensor([1, 6, 12, 3])))


def test_a_branch_on_the_type_of_a_mask_is_a_check() -> None:
    class Masked(nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            return x.masked_fill(mask, 0.0) if mask.dtype == torch.bool else x + mask

    source = check(Masked(), (X, MASK))
    assert "mask.dtype == torch.bool" in source


def test_a_parametrized_layer_is_the_whole_net() -> None:
    torch.manual_seed(0)
    net = nn.utils.parametrizations.weight_norm(nn.GRU(4, 3), "weight_hh_l0")
    report = pn.verify(pn.from_module(net, rand(2, 2, 4)), net, rand(2, 2, 4))
    assert report, str(report)


def test_source_reads_as_the_call() -> None:
    source = check(Calls(lambda x: torch.max(x, dim=1)), (X,))
    assert "torch.return_types.max((" in source
    source = check(Around(nn.Conv1d(4, 6, 3, dtype=torch.float64)), (rand(2, 4, 9).double(),))
    assert "nn.Conv1d(4, 6, 3, dtype=torch.float64)" in source
    source = check(nn.InstanceNorm1d(4, track_running_stats=True), (rand(2, 4, 5),))
    assert "self.training" in source


def test_an_operator_that_nobody_lists_is_known_by_its_name() -> None:
    graph = pn.NodeGraph("bessel")
    x = graph.add("Input", "x", shape=("N", 4))
    graph.connect(x, graph.add("special_bessel_j0", "j"))
    graph.connect("j", graph.add("Output", "y"))
    assert torch.equal(pn.compile(graph)(Y), torch.special.bessel_j0(Y))
    assert pn.NodeGraph.from_json(graph.to_json()) == graph


@pytest.mark.parametrize("name", ["load", "from_file", "save", "_make_dual", "set_num_threads", "hub", "compile"])
def test_only_operators_on_tensors_are(name: str) -> None:
    assert name not in pn.catalog


def test_a_hook_on_a_sequence_of_layers_keeps_it_closed() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 2))
    net[0].register_forward_hook(_doubled)
    graph = pn.from_module(net, X)
    report = pn.verify(graph, net, X)
    assert report, str(report)
    assert list(report.opaque) == ["0"]
    assert "hooks" in report.opaque["0"]


def _doubled(_module: nn.Module, _args: Any, result: Tensor) -> Tensor:
    return result * 2
