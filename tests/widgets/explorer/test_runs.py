"""An explorer of a training: it is asked between two steps, at the weights of now and at those of checkpoints."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.errors import ArgumentError, InspectionError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.widgets.explorer.explorer import ModuleExplorer
from pnne_nb.widgets.explorer.questions import TABS
from tests.widgets.explorer.digits import digits

_, X, Y = digits()


def engine_in(directory: Path, **options: Any) -> TrainingEngine:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.2), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)
    )
    given: dict[str, Any] = {"batch_size": 50, "checkpoint_dir": directory, "max_to_keep": None, "device": "cpu"}
    return TrainingEngine(net, (X, Y), **{**given, **options})


def test_an_explorer_is_opened_on_whatever_has_a_model(tmp_path: Path) -> None:
    engine = engine_in(tmp_path, epochs=1)
    graph = pn.from_module(engine_in(tmp_path).module, args=(X[:2],))
    net = pn.compile(graph)
    editor = pn.GraphEditor(graph)
    with closing(ModuleExplorer(engine.start(), X, Y)) as explorer:
        assert "of 300" in explorer.describe()
        explorer.ask("0", "Units")
    engine.wait()
    for given in (engine, graph, net, editor, pn.InferenceEngine(net, device="cpu")):
        with closing(ModuleExplorer(given, X, Y)) as explorer:
            assert "of 300" in explorer.describe()
            explorer.ask("0", "Units")
            own = explorer._alive().net
            assert answered(explorer) == answer(own, 0)
    with closing(ModuleExplorer(editor, X, Y)) as explorer:
        editor.selection = ("5",)
        assert explorer.selected == "5"
        explorer.select("0")
        assert editor.selection == ("0",)
    editor.graph.disconnect("0.output", "1.input")
    with pytest.raises(ArgumentError, match=r"editor's graph has errors, which editor\.diagnostics lists"):
        ModuleExplorer(editor)
    editor.close()
    with pytest.raises(ArgumentError, match=r"net must be an nn\.Module, not 3"):
        ModuleExplorer(3)  # type: ignore[arg-type]


def answer(net: nn.Module, place: int) -> list[int]:
    with torch.no_grad():
        return net.eval()(X[place : place + 1])[0].argsort(descending=True)[:5].tolist()  # type: ignore[no-any-return]


def answered(explorer: ModuleExplorer) -> list[int]:
    assert explorer._strip.answer is not None
    return [one.place for one in explorer._strip.answer.likely]


def trained(directory: Path, *, asked: bool) -> list[Tensor]:
    engine = engine_in(directory, epochs=2)
    explorer = ModuleExplorer(engine) if asked else None
    for step in range(12):
        engine.step()
        if explorer is not None:
            explorer.select("05"[step % 2])
            explorer.example = step
            explorer._tab.value = TABS[step % 6]
            explorer._weights.index = step % len(explorer._weights.options)
            explorer._tab.value = TABS[(step + 1) % 6]
    if explorer is not None:
        assert len(explorer._weights.options) == 2
        explorer.close()
    engine.stop()
    return [*engine.module.state_dict().values(), torch.tensor(engine.history["loss"]), torch.get_rng_state()]


def test_a_training_that_is_asked_at_each_step_equals_its_twin(tmp_path: Path) -> None:
    ends = []
    for asked in (False, True):
        torch.manual_seed(7)
        ends.append(trained(tmp_path / str(asked), asked=asked))
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


def test_answers_are_those_of_a_running_training_and_of_its_checkpoints(tmp_path: Path) -> None:
    engine = engine_in(tmp_path, epochs=10**6)
    with closing(ModuleExplorer(engine)) as explorer:
        assert explorer._weights.layout.display == "none"
        engine.start()
        while len(list(tmp_path.glob("0*.ckpt"))) < 3:
            explorer.example = explorer.example + 1
            explorer.select("5" if explorer.selected == "0" else "0")
        assert engine.state == "running"
        engine.pause()
        explorer.refresh()
        assert answered(explorer) == answer(engine.snapshot(), explorer.example)
        assert explorer._weights.options[0][0] == "epoch 1, step 6"
        for tab in TABS:
            explorer._tab.value = tab
            explorer._weights.index = 0
            first = engine.snapshot()
            pn.load_weights(first, explorer.checkpoint)
            assert answered(explorer) == answer(first, explorer.example)
            assert "Weights: epoch 1, step 6\n" in explorer.describe()
            explorer._weights.index = len(explorer._weights.options) - 1
            assert explorer.checkpoint is None
            assert answered(explorer) == answer(engine.snapshot(), explorer.example)
        engine.stop()


def test_numbers_of_a_layer_follow_the_training(tmp_path: Path) -> None:
    engine = engine_in(tmp_path)
    with closing(ModuleExplorer(engine)) as explorer:
        before = explorer._alive().captures("0")
        assert explorer._alive().captures("0")[0] is before[0]
        engine.step()
        after = next(one.tensor for one in explorer._alive().captures("0")[0] if one.quantity == "activations")
        torch.testing.assert_close(after, engine.snapshot().get_submodule("0")(X[:256]))
        engine.stop()


def test_a_checkpoint_that_does_not_fit(tmp_path: Path) -> None:
    other = TrainingEngine(
        nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(288, 10)), (X, Y), epochs=1, batch_size=60, device="cpu",
        checkpoint_dir=tmp_path,
    )  # fmt: skip
    other.start()
    assert other.wait(60)
    engine = engine_in(tmp_path, max_to_keep=2)
    with closing(ModuleExplorer(engine)) as explorer:
        explorer._weights.index = 0
        assert "was written by another network: it has no " in explorer._said.value
        assert explorer._weights.label == "now"
        with pytest.raises(
            InspectionError, match=r"000001-step-5\.ckpt was written by another network: it has no 1\.weight, "
        ):
            explorer.checkpoint = tmp_path / "000001-step-5.ckpt"
        with pytest.raises(ArgumentError, match="cannot be read: No such file"):
            explorer.checkpoint = tmp_path / "000002-step-9.ckpt"
        # One that is removed meanwhile stays what is asked.
        for _ in range(6):
            engine.step()
        engine.save_checkpoint()
        explorer.refresh()
        explorer._weights.index = 1
        chosen = explorer.checkpoint
        for _ in range(2):
            engine.step()
            engine.save_checkpoint()
        explorer.refresh()
        assert explorer.checkpoint == chosen
        assert explorer._weights.label == "epoch 1, step 6"
        engine.stop()
