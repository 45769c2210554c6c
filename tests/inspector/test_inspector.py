"""The inspector's promises: what it shows is true, and nothing stays behind."""

from __future__ import annotations

import copy
import gc
import random
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pnne_nb.errors import ArgumentError, InspectionError, LayerNotFoundError
from pnne_nb.inspector.capture.capture import LayerView
from pnne_nb.inspector.inspector import Inspector, parse_share
from pnne_nb.inspector.statistics.sampling import Sampler
from pnne_nb.telemetry import plot_hook
from pnne_nb.telemetry.frames import NormsFrame, StatisticsFrame, StepFrame
from pnne_nb.telemetry.probe import Cadence, Probe
from tests.inspector.models import Checkpointed, Encoder, Twice, hooks_on, mlp

ALL: tuple[Any, ...] = ("activations", "inputs", "gradients", "parameters", "parameter_gradients")


def inspected(net: nn.Module, x: object, pattern: str = "*", loss: bool = True) -> Inspector:
    inspector = Inspector(net)
    inspector.watch(pattern, ALL)
    inspector.run_inspection(x, loss_fn=square if loss else None)
    return inspector


def square(output: Tensor) -> Tensor:
    return output.square().sum()


def test_watch_returns_the_names_that_match() -> None:
    inspector = Inspector(Encoder())
    assert inspector.watch("*.ffn.*") == [f"blocks.{b}.ffn.{i}" for b in (0, 1) for i in (0, 1, 2)]
    assert inspector.watch(["blocks.1.*", "!*.norm"], exclude="*.ffn", types=nn.Linear) == [
        "blocks.1.ffn.0",
        "blocks.1.ffn.2",
    ]
    assert inspector.watch("head", "parameters") == ["head"]
    assert inspector.watched["head"] == ("parameters",)
    assert inspector.unwatch("blocks.*") == [f"blocks.{b}.ffn.{i}" for b in (0, 1) for i in (0, 1, 2)]
    assert inspector.watched == {"head": ("parameters",)}


def test_captures_equal_autograd() -> None:
    torch.manual_seed(0)
    net, x = mlp(), torch.randn(4, 5)
    hidden: Tensor = net[0](x)
    active: Tensor = net[1](hidden)
    out: Tensor = net[2](active)
    gradients = torch.autograd.grad(out.square().sum(), [hidden, active, out, *net.parameters()])
    data = inspected(net, x).captured_data
    for layer, activation, gradient in zip("012", (hidden, active, out), gradients, strict=False):
        assert torch.equal(data[layer]["activations"], activation)  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them
        assert torch.equal(data[layer]["gradients"], gradient)  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them
    assert torch.equal(data["1"]["inputs"], hidden)  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them
    assert torch.equal(data["0"]["parameter_gradients"]["weight"], gradients[3])  # type: ignore[index]  # a captured value is a tensor or a mapping of them
    assert torch.equal(data["0"]["parameters"]["bias"], net[0].bias)  # type: ignore[index, arg-type]  # a captured value is a tensor or a mapping of them


def test_statistics_by_name() -> None:
    net, x = mlp(), torch.randn(6, 5)
    inspector = inspected(net, x)
    found, reference = inspector.get_statistics("1"), net[1](net[0](x)).detach()
    assert found["mean"] == pytest.approx(reference.mean().item(), rel=1e-6)
    assert found.std == pytest.approx(reference.std().item(), rel=1e-6)
    assert found.zeros == pytest.approx((reference == 0).double().mean().item())
    assert (found.shape, found.dtype, found.nan) == ((6, 7), "float32", 0)
    assert inspector.get_statistics("0", "parameters", "bias").shape == (7,)
    counts = inspector.histogram("1", bins=10).counts
    assert counts.sum() == 42


def test_a_loss_of_output_and_target() -> None:
    net, x, y = mlp(), torch.randn(4, 5), torch.tensor([0, 1, 2, 0])
    inspector = Inspector(net)
    run = inspector.run_inspection(x, y, nn.CrossEntropyLoss())
    assert run.loss == pytest.approx(F.cross_entropy(net(x), y).item())
    assert repr(run) == f"Inspection(3 layers, 6 tensors, loss={run.loss:.6g})"
    assert isinstance(run.output, Tensor)
    assert not run.output.requires_grad


def test_summary_has_a_row_for_each_tensor() -> None:
    frame = inspected(mlp(), torch.randn(4, 5)).summary()
    assert list(frame["layer"].unique()) == ["0", "1", "2"]
    row = frame[(frame["layer"] == "1") & (frame["what"] == "activations")].iloc[0]
    assert (row["type"], row["shape"], row["units"]) == ("ReLU", (4, 7), 7)
    assert {"mean", "std", "p50", "nan", "dead_units"} <= set(frame.columns)
    assert list(Inspector(mlp()).summary().columns) == ["layer", "type", "what", "label"]


class Touchy(nn.Module):
    """Changes everything that a forward pass can change."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout()
        self.seen: Tensor
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("nothing", None)
        self.out = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + len(x)
        self.drop.train()
        random.random()
        np.random.rand()  # noqa: NPY002  # the old generator is what is tested
        x.mul_(2)
        return self.out(self.drop(self.norm(x)))  # type: ignore[no-any-return]  # torch types the call of a module as Any


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_as_before(fails: bool) -> None:
    net, x = Touchy(), torch.randn(4, 5)
    net.drop.eval()
    net(x).sum().backward()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    gradients = [
        (parameter.grad, parameter.grad.clone()) for parameter in net.parameters() if parameter.grad is not None
    ]
    assert gradients
    modes = [module.training for module in net.modules()]
    buffers = [id(buffer) for buffer in net.buffers()]
    kept = x.clone()
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002

    def loss(output: Tensor) -> Tensor:
        if fails:
            raise ValueError("boom")
        return output.sum()

    if fails:
        with pytest.raises(ValueError, match="boom"):
            Inspector(net).run_inspection(x, loss_fn=loss)
    else:
        Inspector(net).run_inspection(x, loss_fn=loss)

    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    for (grad, value), parameter in zip(gradients, net.parameters(), strict=True):
        assert parameter.grad is grad
        assert torch.equal(value, grad)
    assert [module.training for module in net.modules()] == modes
    assert [id(buffer) for buffer in net.buffers()] == buffers
    assert torch.equal(x, kept)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]  # type: ignore[index]  # noqa: NPY002
    assert hooks_on(net) == 0


def test_an_outstanding_graph_survives() -> None:
    net, x = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 2)).eval(), torch.randn(4, 5)
    loss = net(x).sum()
    Inspector(net).run_inspection(x, loss_fn=square)
    loss.backward()
    assert net[1].weight.grad is not None


def test_data_on_another_device_is_placed() -> None:
    net = mlp()
    with pytest.raises((RuntimeError, InspectionError)) as caught:
        Inspector(net).run_inspection(torch.empty(2, 5, device="meta"))
    assert "meta" in f"{caught.value} {getattr(caught.value, '__notes__', '')}"
    assert hooks_on(net) == 0


def live_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(value), Tensor) for value in gc.get_objects())


def test_a_thousand_runs_leave_nothing() -> None:
    net, x = nn.Sequential(nn.Linear(5, 3)), torch.randn(2, 5)
    inspector = Inspector(net)
    inspector.watch("0", ALL)
    for _ in range(1000):
        inspector.watch("0", ALL)
        inspector.run_inspection(x, loss_fn=square)
    assert hooks_on(net) == 0
    assert len(inspector.watched) == 1
    tensors = live_tensors()
    inspector.run_inspection(x, loss_fn=square)
    assert live_tensors() == tensors


def test_weak_references_die() -> None:
    net, x = mlp(), torch.randn(2, 5)
    inspector = inspected(net, x)
    references: list[weakref.ref[Any]] = [
        weakref.ref(net),
        weakref.ref(x),
        weakref.ref(inspector.inspection.captures[0].tensor),
    ]
    del net, x, inspector
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


def test_gradients_that_the_model_asks_for_itself_are_not_those_of_the_loss() -> None:
    linear = nn.Linear(5, 5)
    net = nn.Sequential(linear, nn.Tanh())

    def penalty(output: Tensor) -> Tensor:
        [inner] = torch.autograd.grad(output.sum(), linear.weight, create_graph=True)
        return inner.square().sum()

    x = torch.randn(4, 5)
    inspector = Inspector(net)
    inspector.watch("*", "gradients")
    inspector.run_inspection(x, None, penalty)
    hidden = linear(x).detach().requires_grad_()
    slope = 1 - torch.tanh(hidden).square()
    expected = torch.autograd.grad((slope.t() @ x).square().sum(), hidden)
    assert inspector.summary()["layer"].tolist() == ["0", "1"]
    assert torch.allclose(inspector.captured_data["0"]["gradients"], expected[0], atol=1e-5)  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them


def test_a_packed_sequence_is_one_argument() -> None:
    packed = nn.utils.rnn.pack_sequence([torch.randn(4, 5), torch.randn(2, 5)])
    inspector = Inspector(nn.LSTM(5, 6))
    inspector.run_inspection(packed)
    assert inspector.get_statistics("", label="0.0").shape == (6, 6)


def test_a_model_is_copied_and_saved_between_the_steps_of_a_watched_loop(tmp_path: Path) -> None:
    net = mlp()
    with Inspector(net).live():
        torch.save(net, tmp_path / "net.pt")
        copied = copy.deepcopy(net)
        copied(torch.zeros(1, 5))
    assert torch.load(tmp_path / "net.pt", weights_only=False)(torch.zeros(1, 5)).shape == (1, 3)


def test_a_module_that_appears_twice_has_one_name_and_two_calls() -> None:
    net: Any = Twice()
    x = torch.randn(2, 5)
    inspector = inspected(net, x)
    first: Tensor = net.layer(x)
    data: Any = inspector.captured_data["layer"]
    assert torch.equal(data["activations"]["call0"], first)
    assert torch.equal(data["activations"]["call1"], net.layer(first))
    assert inspector.get_statistics("again", label="call1").shape == (2, 5)
    to_second = 2 * net.layer(first)
    assert torch.allclose(data["gradients"]["call1"], to_second)
    assert torch.allclose(data["gradients"]["call0"], to_second @ net.layer.weight)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_layer_is_captured_once(reentrant: bool) -> None:
    net, x = Checkpointed(reentrant=reentrant), torch.randn(2, 5)
    data = inspected(net, x, "block.*").captured_data["block.0"]
    hidden: Tensor = net.block[0](x)
    [gradient] = torch.autograd.grad(net.block[2](torch.tanh(hidden)).square().sum(), [hidden])
    assert torch.equal(data["activations"], hidden)  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them
    assert torch.allclose(data["gradients"], gradient)  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them


def test_tuples_and_dicts_have_labels() -> None:
    net, x = nn.LSTM(3, 4), torch.randn(6, 2, 3)
    inspector = Inspector(nn.Sequential(net))
    inspector.watch("0", "activations")
    inspector.run_inspection(x)
    data: Any = inspector.captured_data["0"]["activations"]
    out, (h, c) = net(x)
    assert {label: tensor.shape for label, tensor in data.items()} == {"0": out.shape, "1.0": h.shape, "1.1": c.shape}
    assert torch.equal(data["1.1"], c)


def test_several_arguments_and_keywords() -> None:
    net = nn.Bilinear(2, 3, 4)
    a, b = torch.randn(5, 2), torch.randn(5, 3)
    one, two = Inspector(net), Inspector(net)
    one.run_inspection((a, b))
    two.run_inspection({"input1": a, "input2": b})
    assert torch.equal(one.captured_data[""]["activations"], two.captured_data[""]["activations"])  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them


def test_in_place_modules() -> None:
    net, x = nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True)), torch.randn(4, 5)
    data = inspected(net, x).captured_data
    hidden = net[0](x)
    assert torch.equal(data["0"]["activations"], hidden)  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them
    assert torch.equal(data["1"]["inputs"], hidden)  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them
    assert torch.equal(data["0"]["gradients"], 2 * hidden.relu())  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them


def test_frozen_parameters_still_have_activation_gradients() -> None:
    net = mlp().requires_grad_(False)
    inspector = inspected(net, torch.randn(4, 5))
    assert inspector.get_statistics("0", "gradients").count == 28
    with pytest.raises(InspectionError, match=r"no parameter_gradients of layer '0': nothing there requires"):
        inspector.get_statistics("0", "parameter_gradients")


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_gradients_also_under_no_grad(guard: Callable[[], AbstractContextManager[None]]) -> None:
    net = mlp()
    with guard():
        inspector = inspected(net, torch.randn(4, 5))
    assert inspector.get_statistics("0", "gradients").norm > 0


def test_the_ambient_autocast_applies() -> None:
    net = mlp()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inspector = inspected(net, torch.randn(4, 5))
    assert inspector.get_statistics("0").dtype == "bfloat16"
    assert inspector.get_statistics("0", "parameter_gradients").dtype == "float32"


def test_a_compiled_model_is_inspected_uncompiled() -> None:
    def explode(*_: object) -> Any:
        raise AssertionError("was compiled")

    net, x = mlp(), torch.randn(4, 5)
    wrapped = torch.compile(net, backend=explode)
    assert isinstance(wrapped, nn.Module)
    assert torch.equal(inspected(wrapped, x).captured_data["0"]["activations"], net[0](x))  # type: ignore[arg-type]  # a captured value is a tensor or a mapping of them
    inner = nn.Sequential(mlp(), nn.ReLU())
    inner[0].compile(backend=explode)
    assert torch.equal(inspected(inner, x).captured_data["0.0"]["activations"], inner[0][0](x))  # type: ignore[arg-type, index]  # a captured value is a tensor or a mapping of them


def test_a_scripted_model_is_refused() -> None:
    with pytest.warns((DeprecationWarning, FutureWarning), match="script"):  # the latter since torch 2.15
        scripted = torch.jit.script(mlp())
    with pytest.raises(InspectionError, match="The model is a TorchScript module"):
        Inspector(scripted)


def test_values_that_are_not_finite_integers_and_nothing() -> None:
    net = nn.Sequential(nn.Identity())
    for data, count in (
        (torch.tensor([[1.0, float("nan")]]), 2),
        (torch.arange(6).reshape(2, 3), 6),
        (torch.randn(3, 2, dtype=torch.complex64), 6),
        (torch.empty(0, 4), 0),
        (torch.tensor([True, False]), 2),
    ):
        inspector = Inspector(net)
        inspector.run_inspection(data)
        assert inspector.get_statistics("0").count == count
    with pytest.raises(InspectionError, match="loss_fn must return a scalar"):
        Inspector(mlp()).run_inspection(torch.randn(2, 5), loss_fn=lambda output: output)


def test_large_runs_keep_samples_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pnne_nb.inspector.capture.capture.KEPT", 30)
    monkeypatch.setattr("pnne_nb.inspector.capture.capture.SAMPLED", 8)
    net, x = mlp(), torch.randn(4, 5)
    inspector = Inspector(net)
    inspector.watch("*", "activations")
    inspector.run_inspection(x)
    sampled = {capture.layer: (capture.sampled, capture.tensor.numel()) for capture in inspector.inspection.captures}
    assert sampled["0"] == (False, 28)
    assert sampled["1"][0]
    assert sampled["1"][1] <= 8
    assert inspector.get_statistics("1").count == 28


def test_plots_are_drawn_by_whoever_was_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    inspector = inspected(mlp(), torch.randn(4, 5))
    monkeypatch.setattr(plot_hook, "_plots", SimpleNamespace(layer=lambda view: view))
    view = inspector.plot("1", "gradients", bins=5)
    assert isinstance(view, LayerView)
    assert (view.capture.layer, view.kind, view.capture.quantity, len(view.histogram.counts)) == (
        "1",
        "ReLU",
        "gradients",
        5,
    )


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda i: i.watch("blocks.0.fnn.*"), LayerNotFoundError, r"No layer matches 'blocks.0.fnn.\*'. Did you mean"),
        (lambda i: i.watch("head", "gradient"), ValueError, r"'gradient' cannot be watched. Did you mean 'gradients'"),
        (lambda i: i.watch("*", types=nn.Conv2d), LayerNotFoundError, r"is a Conv2d.* types Block, LayerNorm, Linear"),
        (lambda i: i.get_statistics("haed"), LayerNotFoundError, r"no layer 'haed'. Did you mean 'head'"),
        (lambda i: i.get_statistics("unused", "activations"), InspectionError, r"did not call layer 'unused'"),
        (lambda i: i.get_statistics("head", "updates"), InspectionError, r"not watched: call watch\('head', 'updates'"),
        (lambda i: i.get_statistics("head", label="7"), InspectionError, r"has no activations labelled '7'"),
        (lambda i: i.get_statistics("head", "gradients"), InspectionError, r"the last run had no loss"),
        (lambda i: i.get_statistics("blocks.0.ffn.1", "parameters"), InspectionError, r"it has no parameters"),
        (lambda i: i.run_inspection(torch.zeros(1, 2, 8), 3), InspectionError, r"A target needs a loss_fn"),
        (
            lambda i: i.run_inspection(torch.zeros(1, 2, 8), 3, "CrossEntropyLoss"),
            ArgumentError,
            r"loss_fn must be a function of output and target, not 'CrossEntropyLoss'.*nn\.CrossEntropyLoss\(\)",
        ),
        (lambda i: i.step(), InspectionError, r"step\(\) belongs inside"),
        (lambda i: i.attach(None, budget="fast"), ValueError, r"budget must be a share .* not 'fast'"),
    ],
)
def test_errors_teach(ask: Callable[[Inspector], object], error: type[Exception], message: str) -> None:
    inspector = inspected(Encoder(), torch.randn(2, 3, 8), loss=False)
    with pytest.raises(error, match=message):
        ask(inspector)


def test_before_the_first_run() -> None:
    inspector = Inspector(mlp())
    assert inspector.captured_data == {}
    assert repr(inspector) == "Inspector(Sequential, watching 0 layers, not run yet)"
    with pytest.raises(InspectionError, match=r"call run_inspection\(data\) first"):
        inspector.get_statistics("0")


def test_updates_are_live_only() -> None:
    inspector = Inspector(mlp())
    inspector.watch("0", "updates")
    inspector.run_inspection(torch.randn(2, 5))
    with pytest.raises(InspectionError, match="Updates exist only while training"):
        inspector.get_statistics("0", "updates")


def test_a_loss_without_gradient_and_an_optimizer_in_the_backward_pass_are_refused() -> None:
    with pytest.raises(InspectionError, match="The loss requires no gradient"):
        Inspector(mlp()).run_inspection(torch.randn(2, 5), loss_fn=lambda output: output.detach().sum())
    net = mlp()
    weight: Any = net[0].weight
    handle = weight.register_post_accumulate_grad_hook(lambda _: None)
    with pytest.raises(InspectionError, match=r"The parameter '0\.weight' has a post-accumulate-grad hook"):
        Inspector(net).run_inspection(torch.randn(2, 5), loss_fn=square)
    handle.remove()


@pytest.mark.parametrize(("budget", "share"), [("1%", 0.01), ("100%", 1.0), (0.5, 0.5), ("0.25", 0.25)])
def test_budgets(budget: str | float, share: float) -> None:
    assert parse_share(budget) == share


class Training:
    """What the inspector knows of an engine."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.probes: list[Probe] = []
        self.budgets: list[float] = []
        self.pauses = 0
        self.gradient_scale = 1.0
        self.listeners: list[tuple[str, Callable[[Any], object]]] = []

    def add_probe(self, probe: Probe, cadence: Cadence | None = None) -> Callable[[], None]:
        assert cadence is not None
        self.probes.append(probe)
        self.budgets.append(cadence.budget)
        return lambda: self.probes.remove(probe) if probe in self.probes else None

    def on(self, event: str, function: Callable[[Any], object]) -> Callable[[], None]:
        entry = (event, function)
        self.listeners.append(entry)
        return lambda: self.listeners.remove(entry) if entry in self.listeners else None

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pauses += 1
        yield


def test_attach_adds_a_probe_and_holds_the_training_while_inspecting() -> None:
    net = mlp()
    training = Training(net)
    inspector = Inspector(net)
    inspector.watch("0")
    detach = inspector.attach(training, budget="1%")
    assert len(training.probes) == 1
    assert training.budgets == [0.01]
    inspector.run_inspection(torch.randn(2, 5))
    assert training.pauses == 1
    detach()
    detach()
    assert training.probes == []
    assert training.listeners == []
    inspector.run_inspection(torch.randn(2, 5))
    assert training.pauses == 1


def test_attach_refuses_a_training_of_another_module() -> None:
    training = Training(mlp())
    with pytest.raises(
        InspectionError, match=r"trains another Sequential, not the Sequential.*Inspector\(engine.module\)"
    ):
        Inspector(mlp()).attach(training)
    assert training.probes == []
    Inspector(training.module.get_submodule("0")).attach(training)()


def test_a_handwritten_loop_is_watched() -> None:
    net, x = mlp(), torch.randn(4, 5)
    inspector = Inspector(net)
    inspector.watch("*", ("activations", "gradients", "updates"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with inspector.live(budget="100%", hz=1e9) as live:
        for _ in range(3):
            loss = net(x).square().sum()
            loss.backward()
            norm = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None]).norm().item()
            optimizer.step()
            optimizer.zero_grad()
            inspector.step(loss)
        with pytest.raises(InspectionError, match="live already"), inspector.live():
            pass
    assert hooks_on(net) == 0
    norms = [frame for frame in live.frames if isinstance(frame, NormsFrame)]
    assert norms[0].step == 1
    assert norms[-1].total == pytest.approx(norm, rel=1e-5) or len(norms) < 3
    assert {frame.quantity for frame in live.frames if isinstance(frame, StatisticsFrame)} == {
        "activations",
        "gradients",
        "updates",
    }
    assert any(isinstance(frame, StepFrame) for frame in live.frames)
    assert 0 <= live.share <= 1
    assert live.steps == 3


def test_the_cost_of_a_handwritten_loop_has_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, draw = [0.0], random.Random(0)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.thread_time", lambda: clock[0])
    net, x = mlp(), torch.randn(4, 5)
    inspector, optimizer = Inspector(net), torch.optim.SGD(net.parameters(), lr=0.1)
    with inspector.live(budget="5%") as live:
        for _ in range(150):
            net(x).square().sum().backward()
            optimizer.step()
            clock[0] += 0.010 * draw.uniform(0.9, 1.1)
            inspector.step()
    # By this clock, watching takes no time at all.
    assert live.cost.margin is not None
    assert live.cost.share <= live.cost.margin < 0.01
    assert str(live.cost).endswith(f" ± {100 * live.cost.margin:.1f} %")


def scaled_loop(fused: bool, told: bool, unscaled: bool) -> dict[tuple[str, str], float]:
    """The norms that are shown of one step with a `GradScaler`."""
    torch.manual_seed(0)
    net, x = mlp(), torch.randn(4, 5)
    inspector = Inspector(net)
    inspector.watch("*", ("gradients", "parameter_gradients"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with inspector.live(scaler=scaler if told else None) as live:
        scaler.scale(net(x).square().sum()).backward()
        if unscaled:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        inspector.step()
    found = {
        (frame.layer, frame.quantity): frame.values["norm"]
        for frame in live.frames
        if isinstance(frame, StatisticsFrame)
    }
    [norms] = [frame for frame in live.frames if isinstance(frame, NormsFrame)]
    return found | {(layer, "norms"): norm for layer, norm in norms.norms.items()} | {("", "total"): norms.total}


@pytest.mark.parametrize(
    ("fused", "told", "unscaled"),
    [(False, True, False), (False, True, True), (True, False, False), (True, True, False), (True, True, True)],
)
def test_gradients_of_a_handwritten_loop_are_shown_unscaled(fused: bool, told: bool, unscaled: bool) -> None:
    torch.manual_seed(0)
    net, x = mlp(), torch.randn(4, 5)
    net(x).square().sum().backward()
    total = torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None]).norm().item()
    found = scaled_loop(fused, told, unscaled)
    assert found["", "total"] == pytest.approx(total, rel=1e-5)
    assert found == pytest.approx(scaled_loop(False, True, False), rel=1e-5)


@pytest.mark.parametrize("when", ["before it is watched", "while it is watched"])
def test_a_compiled_model_in_a_handwritten_loop_is_told_of_once(when: str) -> None:
    net = mlp()
    compiled = torch.compile(net, backend="eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if when == "before it is watched":
        compiled(torch.randn(4, 5))
    inspector = Inspector(net)
    with warnings.catch_warnings(record=True) as told, inspector.live(budget="100%", hz=1e9):
        warnings.simplefilter("always")
        for _ in range(3):
            compiled(torch.randn(4, 5)).sum().backward()
            optimizer.step()
            inspector.step()
    [warning] = [one for one in told if one.category is UserWarning]
    assert re.match("None of the watched layers was called .* torch.compile", str(warning.message))
    with mock.patch.object(Sampler, "__call__", side_effect=AssertionError("a hook has become part of it")):
        compiled(torch.randn(4, 5))


def test_a_loop_that_raises_leaves_nothing() -> None:
    net = mlp()
    inspector = Inspector(net)
    with pytest.raises(RuntimeError, match="mat1 and mat2"), inspector.live():
        net(torch.randn(2, 9))
    assert hooks_on(net) == 0
    with inspector.live():
        assert hooks_on(net) == 3
    assert hooks_on(net) == 0


def test_captured_tensors_are_arrays_that_numpy_can_keep(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(5, 3), nn.ReLU())
    inspector = Inspector(net)
    assert inspector.to_numpy() == {}
    inspector.watch("*", ("activations", "parameters"))
    x = torch.randn(2, 5)
    inspector.run_inspection(x)
    np.savez(tmp_path / "captured.npz", **inspector.to_numpy())  # type: ignore[arg-type]  # numpy knows only one flag
    with np.load(tmp_path / "captured.npz") as found:
        assert set(found) == {"0.activations", "0.parameters.weight", "0.parameters.bias", "1.activations"}
        np.testing.assert_array_equal(found["1.activations"], net(x).detach().numpy())
    half = Inspector(nn.Linear(5, 3, dtype=torch.bfloat16))
    half.run_inspection(x.bfloat16())
    assert half.to_numpy()["activations"].dtype == np.float32
