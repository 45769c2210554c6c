from __future__ import annotations

import pytest

import pnne_nb as pn
from pnne_nb.process import idle
from pnne_nb.protocol.messages import Derived, NodeCost, TensorShape
from pnne_nb.widgets.editor import live_analysis
from pnne_nb.widgets.editor.live_analysis import LiveAnalysis, pieces
from tests.compiler import graphs


def test_a_large_delta_is_told_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_analysis, "PIECE", 3)
    shapes = {f"n{number}.output": TensorShape((number,), "float32") for number in range(7)}
    delta = Derived(shapes=dict(shapes), costs={"n1": NodeCost(1, 1, 1, 1), "n2": None}, example={"N": 1})
    told = list(pieces(delta))
    assert [len(piece.shapes) + len(piece.costs) for piece in told] == [3, 3, 1, 2]
    assert {port: shape for piece in told for port, shape in piece.shapes.items()} == shapes
    assert [piece.example for piece in told] == [{"N": 1}, None, None, None]


def test_an_analysis_that_is_given_up_goes_on_where_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "PIECE", 0.0)
    monkeypatch.setattr(idle, "_BREAK", 0.0)
    graph = graphs.lenet()
    derivation = LiveAnalysis.of(graph)
    leave = derivation.follow(lambda *_: None)
    try:
        derivation.refresh()
        graph.set("conv1", out_channels=7)
        rounds = 0
        finished = False
        while not finished:
            asked = 0

            def soon() -> bool:
                nonlocal asked
                asked += 1
                return asked > 1  # one node each time

            rounds += 1
            try:
                with idle.idle_work(soon):
                    derivation.refresh()
                finished = True
            except idle.OutOfDateError:
                pass
            if rounds == 2:
                graph.set("conv2", padding=1)
        assert rounds > 3
        with pn.compiler.IncrementalAnalysis(graph) as alone:
            whole = alone.refresh()
        assert derivation.whole.shapes == whole.shapes
        assert derivation.whole.resolved == whole.resolved
    finally:
        leave()


def test_what_was_asked_for_stays_as_it_was() -> None:
    graph = graphs.lenet()
    derivation = LiveAnalysis.of(graph)
    leave = derivation.follow(lambda *_: None)
    try:
        derivation.refresh()
        before = derivation.whole
        graph.set("conv1", out_channels=7)
        derivation.refresh()
        assert before.shapes["conv1.output"] != derivation.whole.shapes["conv1.output"]
    finally:
        leave()
