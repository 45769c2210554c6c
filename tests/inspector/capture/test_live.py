"""Frames of live steps against autograd's own answers."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import InspectionError, LayerNotFoundError
from pnne_nb.inspector.capture.live import CALLS, LiveProbe
from pnne_nb.telemetry.frames import Frame, HistogramFrame, NormsFrame, StatisticsFrame
from pnne_nb.telemetry.probe import Probe
from tests.inspector.models import Checkpointed, Twice, hooks_on, mlp

ALL: tuple[Any, ...] = ("activations", "inputs", "gradients", "parameters", "parameter_gradients", "updates")


def observe(probe: LiveProbe, x: Tensor, step: int = 1, optimizer: torch.optim.Optimizer | None = None) -> list[Frame]:
    """One training step, observed as the engine does it; the loss is the sum of the squares of the output."""
    probe.open(step)
    try:
        probe.model.zero_grad()
        probe.model(x).square().sum().backward()
        probe.gradients_ready()
        if optimizer is not None:
            optimizer.step()
        probe.updated()
    finally:
        frames = probe.close()
    return list(frames)


def statistics(frames: list[Frame], layer: str, quantity: str) -> dict[str, float]:
    [values] = [
        frame.values
        for frame in frames
        if isinstance(frame, StatisticsFrame) and frame.layer == layer and frame.quantity == quantity
    ]
    return values


def histogram(frames: list[Frame], layer: str, quantity: str) -> HistogramFrame:
    [found] = [
        frame
        for frame in frames
        if isinstance(frame, HistogramFrame) and frame.layer == layer and frame.quantity == quantity
    ]
    return found


def assert_measures(values: dict[str, float], tensor: Tensor) -> None:
    reference = tensor.detach().double().numpy().ravel()
    assert values["mean"] == pytest.approx(reference.mean(), rel=1e-5, abs=1e-7)
    assert values["std"] == pytest.approx(reference.std(ddof=1), rel=1e-5)
    assert values["min"] == pytest.approx(reference.min(), rel=1e-6)
    assert values["max"] == pytest.approx(reference.max(), rel=1e-6)
    assert values["norm"] == pytest.approx(np.linalg.norm(reference), rel=1e-5)
    assert values["zeros"] == pytest.approx((reference == 0).mean())
    assert values["nan"] == values["inf"] == 0


def test_the_live_probe_is_a_probe() -> None:
    probe: Probe = LiveProbe(mlp())
    assert probe.close() == []


def test_every_quantity_equals_the_answer_of_autograd() -> None:
    torch.manual_seed(0)
    net, x = mlp(), torch.randn(4, 5)
    first, relu, last = net
    assert isinstance(first, nn.Linear)
    hidden: Tensor = first(x)
    active: Tensor = relu(hidden)
    out: Tensor = last(active)
    loss = out.square().sum()
    to_hidden, to_active, to_out = torch.autograd.grad(loss, [hidden, active, out], retain_graph=True)
    weight, bias = torch.autograd.grad(loss, [first.weight, first.bias])
    before = torch.cat([parameter.detach().flatten() for parameter in first.parameters()])
    change = -0.1 * torch.cat([weight.flatten(), bias])

    frames = observe(LiveProbe(net, {"*": ALL}), x, step=7, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))

    assert {frame.step for frame in frames if isinstance(frame, (StatisticsFrame, HistogramFrame))} == {7}
    for layer, activation, gradient in (("0", hidden, to_hidden), ("1", active, to_active), ("2", out, to_out)):
        assert_measures(statistics(frames, layer, "activations"), activation)
        assert_measures(statistics(frames, layer, "gradients"), gradient)
    assert_measures(statistics(frames, "0", "inputs"), x)
    assert_measures(statistics(frames, "1", "inputs"), hidden)
    assert_measures(statistics(frames, "0", "parameters"), before)
    assert_measures(statistics(frames, "0", "parameter_gradients"), torch.cat([weight.flatten(), bias]))
    updates = statistics(frames, "0", "updates")
    assert updates["norm"] == pytest.approx(change.norm().item(), rel=1e-4)
    assert updates["ratio"] == pytest.approx((change.norm() / before.norm()).item(), rel=1e-4)


def test_gradients_of_a_scaled_loss_are_shown_as_they_are() -> None:
    torch.manual_seed(0)
    net, x, scaler = mlp(), torch.randn(4, 5), torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1)
    true = observe(LiveProbe(net, {"*": ("gradients",)}), x)
    probe = LiveProbe(net, {"*": ("gradients",)}, gradient_scale=scaler.get_scale)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    net.zero_grad()
    probe.open(1)
    scaler.scale(net(x).square().sum()).backward()
    scaler.unscale_(optimizer)
    probe.gradients_ready()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2048.0
    probe.updated()
    scaled = list(probe.close())
    for layer in ("0", "1", "2"):
        assert statistics(scaled, layer, "gradients") == pytest.approx(statistics(true, layer, "gradients"))
        one, other = histogram(scaled, layer, "gradients"), histogram(true, layer, "gradients")
        assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper))


def test_norms_are_exact_by_layer_and_in_all() -> None:
    net, x = mlp(), torch.randn(4, 5)
    [frame] = [frame for frame in observe(LiveProbe(net), x) if isinstance(frame, NormsFrame)]
    gradients = {name: parameter.grad for name, parameter in net.named_parameters()}
    assert set(frame.norms) == {"0", "2"}
    for layer in ("0", "2"):
        own = torch.cat([g.flatten() for name, g in gradients.items() if g is not None and name.startswith(layer)])
        assert frame.norms[layer] == pytest.approx(own.double().norm().item(), rel=1e-6)
    total = torch.cat([g.flatten() for g in gradients.values() if g is not None]).double().norm().item()
    assert frame.total == pytest.approx(total, rel=1e-6)


def test_a_histogram_equals_numpy() -> None:
    net, x = mlp(), torch.randn(64, 5)
    frame = histogram(observe(LiveProbe(net, {"0": ("activations",)}), x), "0", "activations")
    reference = net[0](x).detach().double().numpy().ravel()
    counts, edges = np.histogram(reference, bins=32, range=(frame.lower, frame.upper))
    assert frame.lower == pytest.approx(reference.min())
    assert frame.upper == pytest.approx(reference.max())
    # float32 against float64 may move a value that lies on an edge.
    assert np.abs(np.array(frame.counts) - counts).sum() <= 2
    assert sum(frame.counts) == frame.sampled == frame.total == reference.size
    assert len(edges) == len(frame.counts) + 1


def test_a_large_tensor_is_sampled_and_the_frame_says_so() -> None:
    net, x = nn.Sequential(nn.Identity(), nn.Linear(100, 1)), torch.randn(1000, 100)
    frame = histogram(observe(LiveProbe(net, {"0": ("activations",)}), x), "0", "activations")
    assert frame.total == 100_000
    assert 1700 < frame.sampled <= 2048
    assert sum(frame.counts) == frame.sampled


def test_hooks_exist_only_between_open_and_close() -> None:
    net = mlp()
    probe = LiveProbe(net, {"*": ALL})
    assert hooks_on(net) == 0
    probe.open(1)
    assert hooks_on(net) == 6
    probe.close()
    assert hooks_on(net) == 0
    for step in range(1000):
        probe.open(step)
        probe.close()
    assert hooks_on(net) == 0


def test_hooks_go_when_the_step_raises() -> None:
    net = mlp()
    probe = LiveProbe(net, {"*": ALL})
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        observe(probe, torch.randn(4, 9))
    assert hooks_on(net) == 0
    assert len(observe(probe, torch.randn(4, 5))) > 1


def test_opening_twice_leaves_one_set_of_hooks() -> None:
    net = mlp()
    probe = LiveProbe(net)
    probe.open(1)
    probe.open(2)
    assert hooks_on(net) == 3
    probe.close()
    assert hooks_on(net) == 0


def test_only_chosen_layers_are_hooked_and_measured() -> None:
    net = mlp()
    probe = LiveProbe(net, histograms_of=("0",), statistics_of=())
    frames = observe(probe, torch.randn(4, 5))
    assert [frame.layer for frame in frames if isinstance(frame, HistogramFrame)] == ["0"]
    assert not [frame for frame in frames if isinstance(frame, StatisticsFrame)]
    probe.histograms_of = ("1", "2")
    probe.open(2)
    assert hooks_on(net) == 2
    probe.close()
    probe.histograms_of = None
    assert len(observe(probe, torch.randn(4, 5))) == 4


def test_gradient_norms_alone_need_no_hook() -> None:
    net = mlp()
    probe = LiveProbe(net, {})
    probe.open(1)
    assert hooks_on(net) == 0
    probe.close()
    assert [type(frame) for frame in observe(probe, torch.randn(4, 5))] == [NormsFrame]


def test_in_place_modules_do_not_disturb_what_came_before() -> None:
    torch.manual_seed(1)
    net, x = nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=True), nn.Linear(7, 3)), torch.randn(4, 5)
    hidden = net[0](x)
    kept = hidden.detach().clone()
    active = torch.relu(hidden)
    to_hidden, to_active = torch.autograd.grad(net[2](active).square().sum(), [hidden, active])
    frames = observe(LiveProbe(net, {"*": ("activations", "inputs", "gradients")}), x)
    assert_measures(statistics(frames, "0", "activations"), kept)
    assert_measures(statistics(frames, "1", "inputs"), kept)
    assert_measures(statistics(frames, "1", "activations"), active)
    assert_measures(statistics(frames, "0", "gradients"), to_hidden)
    assert_measures(statistics(frames, "1", "gradients"), to_active)


def test_the_calls_of_a_shared_layer_are_pooled() -> None:
    net, x = Twice(), torch.randn(4, 5)
    first = net.layer(x)
    frames = observe(LiveProbe(net, {"again": ("activations", "gradients")}), x)
    assert_measures(statistics(frames, "layer", "activations"), torch.cat([first, net.layer(first)]))
    assert histogram(frames, "layer", "gradients").total == 40


class Repeated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(50):
            x = torch.tanh(self.cell(x))
        return x


def test_of_many_calls_the_first_are_sampled_and_all_counted() -> None:
    frame = histogram(observe(LiveProbe(Repeated()), torch.randn(2, 3)), "cell", "activations")
    assert frame.total == 50 * 6
    assert frame.sampled == CALLS * 6


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpointed_layer_counts_once(reentrant: bool) -> None:
    net, x = Checkpointed(reentrant=reentrant), torch.randn(4, 5)
    frames = observe(LiveProbe(net, {"block.*": ("activations", "gradients")}), x)
    hidden = net.block[0](x)
    [to_hidden] = torch.autograd.grad(net.block[2](torch.tanh(hidden)).square().sum(), [hidden])
    assert histogram(frames, "block.0", "activations").total == hidden.numel()
    assert_measures(statistics(frames, "block.0", "activations"), hidden)
    assert_measures(statistics(frames, "block.0", "gradients"), to_hidden)


class Structured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True)
        self.pool = nn.MaxPool1d(2, return_indices=True)
        self.named = NamedOutputs()

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.rnn(x)
        pooled, _ = self.pool(out)
        return self.named(pooled)["loss"]  # type: ignore[no-any-return]  # torch types the call of a module as Any


class NamedOutputs(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"ids": torch.ones(3, dtype=torch.int64), "loss": x * 2}


def test_of_structured_outputs_the_first_floating_tensor_is_measured() -> None:
    net, x = Structured(), torch.randn(2, 6, 3)
    out, _ = net.rnn(x)
    frames = observe(LiveProbe(net, {"*": ("activations", "gradients")}), x)
    assert_measures(statistics(frames, "rnn", "activations"), out)
    assert_measures(statistics(frames, "named", "activations"), 2 * net.pool(out)[0])
    assert histogram(frames, "rnn", "gradients").total == out.numel()


def test_frozen_parameters_have_no_gradient_frames() -> None:
    net = mlp()
    net[0].requires_grad_(False)
    frames = observe(LiveProbe(net, {"0": ALL}), torch.randn(4, 5))
    quantities = {frame.quantity for frame in frames if isinstance(frame, HistogramFrame)}
    assert quantities == {"activations", "inputs", "parameters"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    net, x = mlp().to(dtype), torch.randn(4, 5, dtype=dtype)
    frames = observe(LiveProbe(net, {"*": ALL}), x, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
    assert statistics(frames, "0", "inputs")["mean"] == pytest.approx(x.double().mean().item(), rel=1e-4)


def test_values_that_are_not_finite_are_counted_apart() -> None:
    net, x = nn.Sequential(nn.Identity(), nn.Linear(2, 1)), torch.tensor([[1.0, float("nan")], [float("inf"), 3.0]])
    frames = observe(LiveProbe(net, {"0": ("activations",)}), x)
    values = statistics(frames, "0", "activations")
    assert (values["nan"], values["inf"], values["mean"], values["max"]) == (1, 1, 2.0, 3.0)
    frame = histogram(frames, "0", "activations")
    assert (sum(frame.counts), frame.sampled, frame.lower, frame.upper) == (2, 4, 1.0, 3.0)
    [norms] = [frame for frame in frames if isinstance(frame, NormsFrame)]
    assert not np.isfinite(norms.total)


def test_nothing_is_kept_after_close() -> None:
    net = mlp()
    probe = LiveProbe(net, {"*": ALL})
    x = torch.randn(4, 5)
    alive = weakref.ref(x)
    observe(probe, x, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
    del x
    gc.collect()
    assert alive() is None
    model = weakref.ref(net)
    del net, probe
    gc.collect()
    assert model() is None


@pytest.mark.parametrize(
    "build", [lambda: LiveProbe(mlp(), {"conv*": ALL}), lambda: LiveProbe(mlp(), histograms_of=("conv",))]
)
def test_unknown_layers_are_refused(build: Callable[[], LiveProbe]) -> None:
    with pytest.raises(LayerNotFoundError, match=r"No layer matches 'conv\*?'\. The layers are '0', '1', '2'"):
        build()


def test_a_compiled_model_is_refused_unless_only_parameters_are_watched() -> None:
    net = mlp()
    compiled = torch.compile(net, backend="eager")
    assert isinstance(compiled, nn.Module)
    with pytest.raises(InspectionError, match=r"The model was compiled by torch\.compile"):
        LiveProbe(compiled)
    frames = observe(LiveProbe(compiled, {"*.0": ("parameters",)}), torch.randn(4, 5))
    assert statistics(frames, "_orig_mod.0", "parameters")["norm"] > 0
