"""A script gives the losses of the engine that it was written from, bit for bit, where this package is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import pnne_nb as pn
from pnne_nb.errors import ArgumentError, TrainingError

EPOCHS = 2


def net(outputs: int = 3) -> pn.NodeGraph:
    """Return a graph with buffers and random numbers."""
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 1, 6, 6))
    graph.add("Conv2d", name="conv", in_channels=1, out_channels=4, kernel_size=3)
    graph.add("BatchNorm2d", name="norm", num_features=4)
    graph.add("ReLU", name="relu")
    graph.add("Flatten", name="flat")
    graph.add("Dropout", name="drop")
    graph.add("Linear", name="fc", in_features="auto", out_features=outputs)
    graph.add("Output", name="y")
    names = ["x", "conv", "norm", "relu", "flat", "drop", "fc", "y"]
    for source, target in pairwise(names):
        graph.connect(source, target)
    return graph


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(50, 1, 6, 6, generator=generator), torch.arange(50) % 3


def bits() -> tuple[Tensor, Tensor]:
    x, y = data()
    return x, y % 2


def custom() -> pn.NodeGraph:
    @pn.register_node(name="Gate")
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.sigmoid(x)

    graph = net()
    graph.add("Gate", name="gate")
    graph.disconnect("conv.output", "norm.input")
    graph.connect("conv", "gate")
    graph.connect("gate", "norm")
    return graph


def engine(model: Any = None, **options: Any) -> pn.TrainingEngine:
    train = data()
    val = train[0][:21], train[1][:21]
    given = {"train_data": train, "val_data": val, "epochs": EPOCHS, "batch_size": 8, "device": "cpu", **options}
    return pn.TrainingEngine(net() if model is None else model, **given)


def local_loss(output: Tensor, target: Tensor) -> Tensor:
    return ((output - nn.functional.one_hot(target, 3)) ** 2).mean()


local_loss.__module__ = "__main__"  # as in a notebook: nothing can import it

CASES: dict[str, Callable[[], pn.TrainingEngine]] = {
    "plain": engine,
    "accumulated and clipped": lambda: engine(accumulate=3, grad_clip=0.5, seed=3),
    "unshuffled without validation": lambda: engine(shuffle=False, val_data=None, optimizer=("SGD", {"lr": 0.1})),
    "one cycle": lambda: engine(scheduler=("OneCycleLR", {"max_lr": 0.01})),
    "scheduler by epoch": lambda: engine(scheduler=("MultiStepLR", {"milestones": [1]})),
    "plateau": lambda: engine(scheduler=("ReduceLROnPlateau", {"patience": 0, "threshold": 10.0})),
    "classes weigh and are ignored": lambda: engine(
        batch_size=10, loss=("CrossEntropyLoss", {"weight": [1.0, 2.0, 3.0], "ignore_index": 1, "label_smoothing": 0.1})
    ),
    "sum": lambda: engine(loss=("CrossEntropyLoss", {"reduction": "sum"}), validate_every=2),
    "loss of a notebook": lambda: engine(loss=local_loss),
    "type of a notebook": lambda: engine(custom()),
    "bf16": lambda: engine(precision="bf16"),
    "loader": lambda: engine(train_data=DataLoader(TensorDataset(*data()), batch_size=7, shuffle=True)),
    "early stopping": lambda: engine(early_stopping=2, min_delta=0.5, epochs=9),
    "deterministic": lambda: engine(deterministic=True),
    "yes and no in whole numbers": lambda: engine(net(outputs=1), train_data=bits(), val_data=bits()),
}

RUN = """
import importlib, json, sys
sys.modules["pnne_nb"] = None
found = {}
for index in range(int(sys.argv[1])):
    script = importlib.import_module(f"script{index}")
    found[index] = script.train()
script = importlib.import_module("resumed")
script.EPOCHS = 1
script.train()
script.EPOCHS = 2
found["resumed"] = script.train(resume=True)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, list[float]], Any]]:
    """Return what each engine has measured, and what its script has."""
    folder = tmp_path_factory.mktemp("scripts")
    measured = {}
    model = pn.compile(net())
    begun = {
        "module": engine(model, scheduler=("StepLR", {"step_size": 1})),
        "imported": engine(pn.from_module(pn.compile(net()).eval(), (data()[0][:2],))),
    }
    cases = {**CASES, **dict.fromkeys(begun, CASES["plain"])}
    for index, (name, make) in enumerate(cases.items()):
        made = begun[name] if name in begun else make()
        if name in begun:
            pn.to_script(made, folder / f"script{index}.py")
        made.start().wait(timeout=60)
        if name not in begun:
            pn.to_script(made, folder / f"script{index}.py")
        measured[name] = {key: made.history[key].tolist() for key in ("loss", "train_loss")}
        measured[name]["val_loss"] = made.history["val_loss"].tolist() if "val_loss" in made.history else []
        if name == "plain":
            pn.to_script(made, folder / "resumed.py")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(len(cases))],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    pairs = {name: (measured[name], found[str(index)]) for index, name in enumerate(cases)}
    return {**pairs, "resumed": (measured["plain"], found["resumed"])}


@pytest.mark.parametrize("name", [*CASES, "module", "imported", "resumed"])
def test_the_script_gives_the_losses_of_the_engine(
    losses: dict[str, tuple[dict[str, list[float]], Any]], name: str
) -> None:
    engine_losses, script_losses = losses[name]
    validated = [value for value in engine_losses["val_loss"] if value == value]  # noqa: PLR0124  # nan: not measured
    assert script_losses["loss"] == engine_losses["loss"]
    assert script_losses["train_loss"] == engine_losses["train_loss"]
    assert script_losses["val_loss"] == validated
    assert len(script_losses["loss"]) >= EPOCHS


def test_the_text_is_returned_and_nothing_is_written_without_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = pn.to_script(engine())
    compile(text, "training.py", "exec")
    assert "import pnne_nb" not in text
    assert not list(tmp_path.iterdir())


class Pictures(Dataset[Any]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return torch.zeros(1, 6, 6), index % 3


class Loss(nn.Module):
    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return (output.sum(1) - target).square().mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_data": Pictures()}, "train_data is read by Pictures, whose code a script cannot hold"),
        ({"val_data": Pictures()}, "val_data is read by Pictures"),
        ({"early_stopping": 2, "monitor": ("val_loss", "max")}, "The early stopping wants more val_loss"),
        (
            {"early_stopping": 2, "monitor": ("val_accuracy", "max"), "metrics": ["accuracy"]},
            "early stopping depends on val_accuracy",
        ),
        ({"restore_best_weights": True}, "cannot be written with restore_best_weights"),
        ({"step_function": lambda model, batch: model(batch[0]).sum()}, "cannot be written with step_function"),
        ({"precision": "16"}, 'cannot be written with precision="16": make an engine with precision="bf16" or "32"'),
        ({"validate_every": (3, "steps")}, 'cannot be written with validate_every in "steps"'),
        ({"optimizer": "LBFGS"}, "cannot be written with the optimizer LBFGS"),
        ({"parameter_groups": {"*.bias": {"lr": 0.1}}}, "cannot be written with parameter_groups"),
        ({"loss": Loss()}, r"The loss Loss\(\) is an object, which a script cannot make"),
        ({"loss": lambda output, target: output.sum()}, "The loss <function <lambda>"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(36, 3))}, "Sequential was not compiled from a graph"),
        (
            {"scheduler": "ReduceLROnPlateau", "monitor": ("val_accuracy", "max")},
            "The plateau depends on val_accuracy, which the script does not measure",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_a_script_cannot_hold_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        pn.to_script(engine(**options))


@pytest.mark.parametrize("imported", [False, True])
def test_weights_that_are_gone_are_refused(imported: bool) -> None:
    model = pn.compile(net())
    made = engine(pn.from_module(model, (data()[0][:2],)) if imported else model)
    made.step()
    made.stop()
    made.wait(timeout=60)
    with pytest.raises(TrainingError, match="the weights that it began with are gone"):
        pn.to_script(made)


def test_an_edited_graph_is_refused() -> None:
    graph = net()
    made = engine(graph)
    graph.set("drop", p=0.1)
    with pytest.raises(TrainingError, match="The graph was edited"):
        pn.to_script(made)


def test_bad_arguments_are_said(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="engine must be a TrainingEngine"):
        pn.to_script(3)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ArgumentError, match="path must be the path of the script"):
        pn.to_script(engine(), 3)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TrainingError, match="cannot be written: No such file"):
        pn.to_script(engine(), tmp_path / "missing" / "train.py")


def drawn(source: str, inputs: int, outputs: int, loss: str, **settings: Any) -> pn.NodeGraph:
    """Return a training graph of a perceptron with validation."""
    graph = pn.NodeGraph("net")
    for part in ("train", "validation"):
        graph.add("Dataset", name=f"{part}_data", source=source, split=part, **settings)
        graph.add("DataLoader", name=f"{part}_loader", batch_size=16, shuffle=part == "train")
        graph.connect(f"{part}_data.dataset", f"{part}_loader.dataset")
    graph.add("Validation", name="held_out")
    graph.add("Flatten", name="flat")
    graph.add("Linear", name="fc1", in_features=inputs, out_features=8)
    graph.add("Dropout", name="drop")
    graph.add("Linear", name="fc2", in_features=8, out_features=outputs)
    graph.add(loss, name="loss")
    graph.add("AdamW", name="optimizer", lr=1e-2)
    for ends in (
        ("validation_loader.loader", "held_out.loader"), ("train_loader.input", "flat"), ("flat", "fc1"), ("fc1", "drop"),
        ("drop", "fc2"), ("fc2.output", "loss.input"), ("train_loader.target", "loss.target"),
        ("loss.output", "optimizer.loss"),
    ):  # fmt: skip
        graph.connect(*ends)
    return graph


def drawn_engine(graph: pn.NodeGraph, **options: Any) -> pn.TrainingEngine:
    return pn.TrainingEngine.from_graph(graph, epochs=EPOCHS, device="cpu", **options)


@pytest.mark.parametrize("source", ["digits", "iris", "diabetes", "variable", "csv"])
def test_a_drawn_training_gives_the_same_losses(source: str, tmp_path: Path) -> None:
    x, y = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    table = tmp_path / "table.csv"
    rows = [",".join(map(str, [*row, target])) for row, target in zip(x.tolist(), y.tolist(), strict=True)]
    table.write_text("\n".join(["a,b,c,kind", *rows]))
    graph = {
        "digits": lambda: drawn("digits", 64, 10, "CrossEntropyLoss"),
        "iris": lambda: drawn("iris", 4, 3, "CrossEntropyLoss", standardize=True),
        "diabetes": lambda: drawn("diabetes", 10, 1, "MSELoss", standardize=True),
        "variable": lambda: drawn("variable", 3, 2, "CrossEntropyLoss", data="pairs"),
        "csv": lambda: drawn("csv", 3, 2, "CrossEntropyLoss", data=str(table)),
    }[source]()
    engine = drawn_engine(graph, data={"pairs": (x, y)})
    script = tmp_path / "train.py"
    text = pn.to_script(engine, script)
    assert "pnne_nb" not in text.replace("written by pnne_nb", "")[text.index("import") :]
    engine.start().wait(120)
    space: dict[str, Any] = {"__file__": str(script), "__name__": "training"}
    exec(compile(text, str(script), "exec"), space)  # our own text
    history = space["train"]()
    for name in ("loss", "train_loss", "val_loss"):
        assert history[name] == engine.history[name].tolist(), name


def test_a_drawn_training_that_a_script_cannot_repeat_says_why() -> None:
    graph = drawn("iris", 4, 3, "CrossEntropyLoss")
    graph.add("Loss", name="weighed", weight=0.5)
    graph.disconnect("loss.output", "optimizer.loss_0")
    graph.connect("loss.output", "weighed.input")
    graph.connect("weighed.loss", "optimizer.loss")
    with pytest.raises(
        TrainingError, match="connect one loss layer to the model's output, the target and the optimizer"
    ):
        pn.to_script(drawn_engine(graph))
