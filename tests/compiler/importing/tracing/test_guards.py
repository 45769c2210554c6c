"""What a drawing takes from its example is checked where it runs: other sizes are refused, or go as in the module."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import difference
from pnne_nb.compiler.importing.verification.batch_resize import batch_of
from pnne_nb.process.random_state import private_random_state


class Asking(nn.Module):
    """Has layers for the functions below, which become the ``forward`` of classes of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.several = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))


def asking(does: Callable[..., Any]) -> nn.Module:
    made: nn.Module = type("Asking", (Asking,), {"forward": does})()
    return made


def steps(self: Any, x: Tensor) -> Any:
    out = x[:, 0]
    for step in range(1, x.shape[1]):
        out = self.layer(out) + x[:, step]
    return out


def rows(self: Any, x: Tensor) -> Any:
    return torch.stack([self.layer(each) for each in x])


def unbound(self: Any, x: Tensor) -> Any:
    return torch.stack([self.layer(each) for each in x.unbind(1)])


def pieces(self: Any, x: Tensor) -> Any:
    total = self.layer(x[:, 0])
    for piece in torch.split(x, 2, dim=1):
        total = total + piece.sum(1)
    return total


def even(self: Any, x: Tensor) -> Any:
    return self.layer(x) if x.shape[1] % 2 == 0 else x


def long(self: Any, x: Tensor) -> Any:
    return self.layer(x) if x.shape[1] > 3 else x


def at_least(self: Any, x: Tensor) -> Any:
    return self.layer(x) / max(x.size(1), 4)


def logarithm(self: Any, x: Tensor) -> Any:
    return self.layer(x) * float(np.log2(x.shape[1]))


def rounded(self: Any, x: Tensor) -> Any:
    return self.layer(x) * round(x.shape[1] / 4)


def listed(self: Any, x: Tensor) -> Any:
    return sum([x[:, :1]] * x.shape[1], self.layer(x))


def contained(self: Any, x: Tensor) -> Any:
    return self.layer(x) if 6 in x.shape else x


def halved(self: Any, x: Tensor) -> Any:
    half, rest = divmod(x.shape[1], 2)
    return self.layer(x[:, : half + rest])


def chosen(self: Any, x: Tensor) -> Any:
    return self.several[x.shape[1] % 4](x)


def dimensions(self: Any, x: Tensor) -> Any:
    return self.layer(x.mean(1) if x.dim() == 3 else x)


def empty(self: Any, x: Tensor) -> Any:
    return self.layer(x) if x.shape[1] else x


def looked_up(self: Any, x: Tensor) -> Any:
    return self.layer(x) * {1: 0.5, 8: 2.0}.get(x.shape[1], -1.0)


def looked_up_by_shape(self: Any, x: Tensor) -> Any:
    factors: dict[Any, float] = {(2, 8): 2.0}
    return self.layer(x) * factors.get(x.shape[:2], -1.0)


def looked_up_by_half(self: Any, x: Tensor) -> Any:
    return self.layer(x) if x.shape[1] / 2 in {3.0, 2.5} else x


@functools.lru_cache
def triangle(size: int) -> Tensor:
    return torch.ones(size, size).tril()


def remembered(self: Any, x: Tensor) -> Any:
    return triangle(x.shape[1]) @ self.layer(x)


X = torch.randn(2, 6, 4)
OTHERS = [torch.randn(2, size, 4) for size in (0, 1, 2, 3, 4, 5, 7, 8)] + [torch.randn(3, 6, 4), torch.randn(2, 4)]

CASES: list[tuple[Callable[..., Any], str]] = [
    (steps, "imported for x.shape[1] == 6; otherwise import again"),
    (rows, ""),
    (unbound, "imported for x.shape[1] == 6"),
    (pieces, "imported for len(split(x, 2)) == 3"),
    (even, "imported for x.shape[1] % 2 == 0"),
    (long, "imported for x.shape[1] > 3"),
    (at_least, "x.size(1)"),
    (logarithm, "imported for x.shape[1] == 6"),
    (rounded, "imported for x.shape[1] / 4 == 1.5"),
    (listed, "x.shape[1]) == 6"),
    (contained, "imported for x.shape[1] == 6"),
    (halved, ""),
    (chosen, "imported for x.shape[1] % 4 == 2"),
    (dimensions, "imported for x.ndim == 3"),
    (empty, "x.shape[1]"),
    (looked_up, "imported for x.shape[1] == 6"),
    (looked_up_by_shape, "x.shape"),
    (looked_up_by_half, "imported for x.shape[1] / 2 == 3.0"),
    (remembered, "imported for x.shape[1] == 6"),
]


@pytest.mark.parametrize(("does", "said"), CASES, ids=[does.__name__ for does, _ in CASES])
def test_another_size_is_refused_or_goes_as_in_the_module(does: Callable[..., Any], said: str) -> None:
    net = asking(does)
    graph = pn.NodeGraph.from_json(pn.from_module(net, X).to_json())
    assert pn.verify(graph, net, X)
    model = pn.compile(graph, reuse=net)
    refused = ""
    for other in OTHERS:
        try:
            expected = net(other)
        except Exception:  # noqa: BLE001  # what the module refuses is nobody's
            continue
        try:
            assert difference(expected, model(other)) == ""
        except pn.ExecutionError as error:
            refused += str(error)
            assert "Node 'check" in refused
            assert "imported for" in refused
    assert said in refused
    assert bool(refused) == bool(said)


def test_the_check_stands_alone_in_the_source() -> None:
    source = pn.to_source(pn.from_module(asking(long), X))
    assert "torch._assert(" in source
    assert (
        "imported for x.shape[1] > 3; otherwise import again (dimension 1 of x must be more than 3, for test_guards.py, line"
        in source
    )
    names: dict[str, Any] = {"__name__": "shown"}
    exec(compile(source, "<shown>", "exec"), names)  # that is what it is for
    with pytest.raises(AssertionError, match=r"imported for x\.shape\[1\] > 3"):
        names["Asking"]()(torch.randn(2, 2, 4))


def optional(
    self: Any, x: Tensor, mask: Tensor | None = None, scale: bool = False, size: Any = (6, 4), dtype: Any = None
) -> Any:
    x = self.layer(x).reshape(-1, *size).to(dtype)
    x = x if mask is None else x + mask
    return x * 2 if scale else x


def test_a_constant_argument_takes_nothing_else() -> None:
    net = asking(optional)
    rest = (6, 4), torch.float32
    model = pn.compile(pn.from_module(net, (X, None, False, *rest)), reuse=net)
    assert torch.equal(model(X, None, False, *rest), net(X, dtype=torch.float32))
    for given, said in (
        ((torch.ones(4), False, *rest), "mask is None"),
        ((None, True, *rest), "scale == False"),
        ((None, False, (4, 6), torch.float32), r"size == \(6, 4\)"),
        ((None, False, (6, 4), torch.float64), r"dtype == torch\.float32"),
    ):
        with pytest.raises(pn.ExecutionError, match=f"imported for {said}; otherwise import again"):
            model(X, *given)


class ByMode(nn.Module):
    """Only training goes by a size."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return x * 2 if x.shape[1] > 3 else x
        return x + 1


def test_a_check_of_training_is_one_of_training_only() -> None:
    net = ByMode()
    model = pn.compile(pn.from_module(net, X), reuse=net)
    short = torch.randn(2, 2, 4)
    assert torch.equal(model.eval()(short), net.eval()(short))
    with pytest.raises(pn.ExecutionError, match=r"imported for x\.shape\[1\] > 3"):
        model.train()(short)


def test_a_drawing_of_a_drawing_checks_too() -> None:
    net = asking(steps)
    model = pn.compile(pn.from_module(net, X), reuse=net)
    again = pn.compile(pn.from_module(model, X), reuse=model)
    with pytest.raises(pn.ExecutionError, match=r"imported for x\.shape\[1\] == 6"):
        again(torch.randn(2, 7, 4))


def test_an_open_size_is_told_that_it_does_not_fit() -> None:
    graph = pn.from_module(asking(steps), X)
    graph.set("x", shape=("N", 6, 4))
    assert not any(found.severity == "error" for found in graph.diagnostics())
    pn.infer_shapes(graph)
    graph.set("x", shape=("N", 5, 4))
    with pytest.raises(pn.ShapeError, match=r"imported for x\.shape\[1\] == 6"):
        pn.infer_shapes(graph)


def test_checks_outlive_the_removal_of_dead_nodes() -> None:
    net = asking(even)
    graph = pn.from_module(net, X)
    done = pn.transform(graph, [pn.passes.RemoveDeadNodes(), pn.passes.MergeEqualNodes()], reuse=net, args=(X,))
    with pytest.raises(pn.ExecutionError, match="% 2 == 0"):
        done.model(torch.randn(2, 5, 4))


class PerExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = asking(rows)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.inner(x))
        return out


def test_a_loop_over_the_batch_stays_closed_and_takes_any() -> None:
    net = PerExample()
    graph = pn.from_module(net, X)
    opaque = pn.verify(graph, net, X).opaque
    assert list(opaque) == ["inner"]
    assert "loops over the examples of a batch (x.shape[0] is 2)" in opaque["inner"]
    assert torch.equal(pn.compile(graph, reuse=net)(OTHERS[-2]), net(OTHERS[-2]))


def test_what_counts_examples_is_told_from_what_counts_steps() -> None:
    with private_random_state():
        batch, recurrent = nn.LSTM(4, 3, batch_first=True), nn.LSTM(4, 3)
    assert batch_of(nn.Linear(4, 3), (X,), {}) == 2
    assert batch_of(batch, (X,), {}) == 2
    assert batch_of(recurrent, (X,), {}) is None
    assert batch_of(nn.Linear(4, 3), (torch.zeros(2, 4),), {}) is None  # equal examples tell nothing


def positions(self: Any, x: Tensor) -> Any:
    places = torch.arange(x.shape[1])
    jumps = torch.diff(places, prepend=places[:1] - 1)
    if (jumps == 1).all():
        return self.layer(x)
    return x


def counted(self: Any, x: Tensor) -> Any:
    x = self.layer(x)
    for _ in range(int(torch.ones(x.shape[1]).sum())):
        x = x + 1
    return x


def changed(self: Any, x: Tensor) -> Any:
    ones = torch.ones(x.shape[1])
    ones[:2].mul_(x.sum())
    return self.layer(x) if (ones == 1).all() else x


def test_what_sizes_alone_decide_is_followed_and_checked() -> None:
    for does, other, said in ((positions, 9, ""), (counted, 9, r"imported for .*ones\(.*\).* == 6")):
        net = asking(does)
        graph = pn.from_module(net, X)
        assert pn.verify(graph, net, X).opaque == {}
        model, inputs = pn.compile(graph, reuse=net), torch.randn(2, other, 4)
        if not said:
            assert torch.equal(model(inputs), net(inputs))
            continue
        with pytest.raises(pn.ExecutionError, match=said):
            model(inputs)


def test_what_an_input_has_changed_in_place_is_not_decided_by_sizes() -> None:
    net = asking(changed)
    assert "only known when it runs" in next(iter(pn.verify(pn.from_module(net, X), net, X).opaque.values()))


def by_kind(self: Any, x: Tensor) -> Any:
    if x.device.type in ("mps", "cuda"):
        return x
    if x.device == torch.device("cpu") and not x.is_cuda:
        return self.layer(x)
    return x * 2


def test_a_branch_on_the_device_is_checked() -> None:
    net = asking(by_kind)
    graph = pn.from_module(net, X)
    assert pn.verify(graph, net, X).opaque == {}
    [check] = [node for node in graph.nodes.values() if node.type == "check"]
    assert str(check.properties["message"]).startswith(
        "imported for not x.is_cuda; otherwise import again (test_guards.py"
    )


def test_limits_of_numbers_are_those_of_the_example() -> None:
    def limits(self: Any, x: Tensor) -> Any:
        x = self.layer(x) + torch.finfo(x.dtype).eps * torch.iinfo(x.long().dtype).bits
        return torch.distributions.Categorical(logits=x).entropy()  # type: ignore[no-untyped-call]  # torch does not say

    net = asking(limits)
    graph = pn.from_module(net, X)
    assert pn.verify(graph, net, X).opaque == {}
    assert torch.equal(pn.compile(graph, reuse=net)(X), net(X))


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (even, r"dimension 1 of x must be a multiple of 2, for test_guards\.py, line \d+: "),
        (long, r"dimension 1 of x must be more than 3, for test_guards\.py, line \d+: "),
        (steps, r"dimension 1 of x must be 6, for test_guards\.py, line \d+: "),
    ],
)
def test_a_check_says_in_words_what_it_asks_and_where(does: Callable[..., Any], said: str) -> None:
    graph = pn.from_module(asking(does), X)
    found = [str(node.properties["message"]) for node in graph.nodes.values() if node.type == "check"]
    assert any(re.search(said, each) for each in found), found


def pairs(self: Any, x: Tensor) -> Any:
    return self.layer(x.view(4, -1, 4)).mean(1)


def blocks(self: Any, x: Tensor) -> Any:
    x = self.layer(x)
    return torch.reshape(x, (4, 2, -1))


def whole(self: Any, x: Tensor) -> Any:
    return self.layer(x.view([8, 4]))


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (
            pairs,
            "batch size (x.shape[0]) must be a multiple of 4, because line {} of test_guards.py views it as (4, -1, 4)",
        ),
        (
            blocks,
            "batch size (layer(x).shape[0]) must be a multiple of 2, because line {} of test_guards.py views it as (4, 2, -1)",
        ),
        (whole, "batch size (x.shape[0]) must be 8, because line {} of test_guards.py views it as (8, 4)"),
    ],
)
def test_a_view_of_fixed_sizes_says_what_batch_fits(does: Callable[..., Any], said: str) -> None:
    lines, first = inspect.getsourcelines(does)
    line = first + next(index for index, text in enumerate(lines) if "view" in text or "reshape" in text)
    net, x = asking(does), torch.randn(8, 4)
    graph = pn.from_module(net, x)
    assert graph.import_report.closed == 0
    [check] = [node for node in graph.nodes.values() if node.type == "check"]
    assert check.properties["message"] == said.format(line)
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model(x), net(x))
    with pytest.raises(pn.ExecutionError, match=re.escape(said.format(line))):
        model(torch.randn(7, 4))


def caught(self: Any, x: Tensor) -> Any:
    try:
        return self.layer(x.view(3, 5))
    except RuntimeError:
        return self.layer(x)


@pytest.mark.parametrize(
    "does",
    [
        lambda self, x: self.layer(x.view(-1, 4)),
        lambda self, x: self.layer(x.reshape(1, -1, 2, 2).view(x.shape[0], -1)),
        lambda self, x: self.layer(x).sum(0).view(2, 2),
        lambda self, x: self.layer(x).view(torch.int32),
        caught,
    ],
)
def test_a_view_that_asks_for_no_batch_is_not_checked(does: Callable[..., Any]) -> None:
    graph = pn.from_module(asking(does), torch.randn(8, 4))
    assert not [node for node in graph.nodes.values() if node.type == "check"]


def test_a_refusal_names_the_line() -> None:
    def by_data(self: Any, x: Tensor) -> Any:
        x = self.layer(x)
        return x if x.sum() > 0 else -x

    report = pn.from_module(asking(by_data), X).import_report
    assert re.search(r"\(test_guards\.py, line \d+: return x if x\.sum\(\) > 0 else -x\)", report.rows[0].reason)
