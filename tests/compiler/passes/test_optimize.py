from __future__ import annotations

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.passes import pass_manager, report
from pnne_nb.compiler.passes.report import Gain
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import trained


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "TIMING_SECONDS", 0.0)
    monkeypatch.setattr(report, "TIMING_ROUNDS", 1)
    monkeypatch.setattr(pass_manager, "SLOWER", 1e9)


def layers() -> pn.NodeGraph:
    return pn.sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(144, 6), nn.BatchNorm1d(6),
        input=("N", 1, 8, 8),
    )  # fmt: skip


def test_what_inference_does_not_need_goes_and_the_outputs_stay() -> None:
    graph, x = layers(), torch.randn(5, 1, 8, 8)
    model = trained(graph, x)
    done = pn.optimize_for_inference(graph, (x,), reuse=model)
    assert [node.type for node in done.graph.nodes.values()] == [
        "Input",
        "Conv2d",
        "ReLU",
        "Flatten",
        "Linear",
        "Output",
    ]
    torch.testing.assert_close(done.model(x), model.eval()(x), rtol=1e-4, atol=1e-5)
    assert not done.model.training
    assert all(each.proof is None or each.proof.holds for each in done.reports)
    assert "batch_norm2d1 is in the weights of conv2d1" in str(done)
    assert "batch_norm1d1 is in the weights of linear1" in str(done)


def test_a_fusion_that_is_slower_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_manager, "SLOWER", 1.03)
    slower = Gain("forward pass", 0.001, 0.002, "s", measured=True)
    monkeypatch.setattr("pnne_nb.compiler.passes.pass_manager.forward_gain", lambda *_: slower)
    graph, x = layers(), torch.randn(5, 1, 8, 8)
    done = pn.optimize_for_inference(graph, (x,), reuse=trained(graph, x))
    assert "batch_norm2d1" in done.graph
    assert "dropout1" not in done.graph
    assert "refused: left out: forward pass 1 ms → 2 ms" in str(done)


def test_a_model_without_anything_to_gain_stays() -> None:
    graph = pn.sequential(nn.Linear(4, 4), input=("N", 4))
    assert pn.optimize_for_inference(graph).graph == graph


def test_only_known_layers_can_be_fused_into() -> None:
    with pytest.raises(pn.ArgumentError, match="Nothing can be fused into LSTM: layers are among Conv1d"):
        pn.passes.FuseBatchNorm(["LSTM"])


def removed(graph: pn.NodeGraph, *args: torch.Tensor) -> tuple[pn.NodeGraph, nn.Module, str]:
    done = pn.transform(graph, [pn.passes.RemoveIdentities()], args=args)
    return done.graph, done.model, str(done)


def test_dropout_and_identities_go_also_one_after_another() -> None:
    graph = pn.sequential(nn.Linear(4, 4), nn.Dropout(), nn.Identity(), nn.ReLU(), nn.Dropout1d(), input=("N", 4))
    x = torch.randn(3, 4)
    done, model, said = removed(graph, x)
    assert [node.type for node in done.nodes.values()] == ["Input", "Linear", "ReLU", "Output"]
    assert "Dropout does nothing in inference" in said
    assert not model.training
    assert model(x).shape == (3, 4)


def test_nothing_is_changed_where_there_is_nothing_to_remove() -> None:
    graph = pn.sequential(nn.Linear(4, 4), input=("N", 4))
    done, _, said = removed(graph, torch.randn(3, 4))
    assert done == graph
    assert "nothing to do" in said


def test_an_input_does_not_become_an_output() -> None:
    graph = pn.NodeGraph("same")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Dropout", "drop")
    graph.add("Output", "y")
    done, _, said = removed(wire(graph, "x drop y"), torch.randn(3, 4))
    assert "drop" in done
    assert "an Input would be an Output itself" in said


def test_nested_graphs_are_searched_too() -> None:
    graph = pn.sequential(nn.Linear(4, 4), nn.Dropout(), nn.ReLU(), input=("N", 4))
    graph.group(["dropout1", "relu1"], name="block")
    done, _, _ = removed(graph, torch.randn(3, 4))
    assert "block.dropout1" not in done
    assert "block.relu1" in done
