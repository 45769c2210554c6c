"""Injects NaN and infinities into trainings, and counts how often step, node, operation and line are named right.

``python scripts/fault_trials.py [trials]``; 300 unless told otherwise. Each trial trains a small model for some steps on
examples of which one has a bad trigger: the step whose batch holds it fails. Faults are made in the forward pass, in the
backward pass, in the loss, in the data, in half precision and by custom autograd functions; models are drawn graphs and plain
modules. After each, the model must be bit for bit what it was before the step, and some trainings are taken back further.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

import pnne_nb as pn

WIDTH: Final = 8
BATCH: Final = 8
STEPS: Final = 12


class RootOfOne(torch.autograd.Function):
    """A root whose gradient is infinite at 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The root."""
        ctx.save_for_backward(x)
        return x.clamp_min(0).sqrt()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Tensor:
        """The slope."""
        (x,) = ctx.saved_tensors
        slope: Tensor = 0.5 / x.clamp_min(0).sqrt()  # FAULT custom-backward
        return given[0] * slope


class LogOfOne(torch.autograd.Function):
    """A logarithm that is not guarded."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The logarithm."""
        ctx.save_for_backward(x)
        return torch.log(x)  # FAULT custom-forward

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Tensor:
        """The slope."""
        (x,) = ctx.saved_tensors
        slope: Tensor = given[0] / x
        return slope


def _log(h: Tensor, t: Tensor) -> Tensor:
    return h + torch.log(t)  # FAULT log


def _reciprocal(h: Tensor, t: Tensor) -> Tensor:
    scale = t.reciprocal()  # FAULT reciprocal
    return h * scale


def _masked(h: Tensor, t: Tensor) -> Tensor:
    hidden = h.masked_fill(t <= 0, float("-inf"))
    return hidden.softmax(-1)  # FAULT masked


def _in_place(h: Tensor, t: Tensor) -> Tensor:
    t = t.clone()
    t.log_()  # FAULT in-place
    return h + t


def _normed(h: Tensor, t: Tensor) -> Tensor:
    size = (h * t).abs().sum(-1, keepdim=True)
    return h / size  # FAULT normed


def _root_slope(h: Tensor, t: Tensor) -> Tensor:
    return h + (h * t).pow(2).sum(-1, keepdim=True).sqrt()  # FAULT root-slope


def _power_slope(h: Tensor, t: Tensor) -> Tensor:
    return h + (h * t).abs() ** 0.5  # FAULT power-slope


def _where_slope(h: Tensor, t: Tensor) -> Tensor:
    squares = (h * t).pow(2)
    logs = torch.log(squares)  # FAULT where-slope
    return h + torch.where(squares > 0, logs, torch.zeros_like(logs))


def _angle_slope(h: Tensor, t: Tensor) -> Tensor:
    return h + torch.acos(t + 0 * h)  # FAULT angle-slope


def _custom_backward(h: Tensor, t: Tensor) -> Tensor:
    root: Tensor = RootOfOne.apply((h * t).pow(2).sum(-1, keepdim=True))  # type: ignore[no-untyped-call]  # torch's
    return h + root


def _custom_forward(h: Tensor, t: Tensor) -> Tensor:
    log: Tensor = LogOfOne.apply(t + 0 * h)  # type: ignore[no-untyped-call]  # torch's
    return h + log


def _hook(h: Tensor, t: Tensor) -> Tensor:
    h = h * 1.0
    h.register_hook(lambda given: given / t)  # type: ignore[no-untyped-call]  # FAULT hook
    return h


def _half(h: Tensor, t: Tensor) -> Tensor:
    return h + torch.nn.functional.linear(t * h, torch.full((h.shape[-1], h.shape[-1]), 100.0))  # FAULT half


class Kind(NamedTuple):
    """A fault: what makes it, its trigger, and the truth."""

    name: str
    trigger: float
    operations: tuple[str, ...]
    make: Callable[[Tensor, Tensor], Tensor] | None = None
    drawn: tuple[tuple[str, dict[str, Any]], ...] = ()
    precision: str = "32"
    usual: float = 0.5


KINDS: Final = (
    Kind("log", 0.0, ("log",), _log, (("log", {}),)),
    Kind("log", -1.0, ("log",), _log, (("log", {}),)),
    Kind("sqrt", -1.0, ("sqrt",), lambda h, t: h + torch.sqrt(t), (("sqrt", {}),)),  # FAULT sqrt
    Kind("divide", 0.0, ("div",), lambda h, t: h / t, (("reciprocal", {}),)),  # FAULT divide
    Kind("reciprocal", 0.0, ("reciprocal",), _reciprocal, (("reciprocal", {}),)),
    Kind("exp", 1000.0, ("exp",), lambda h, t: h * torch.exp(t), (("exp", {}),)),  # FAULT exp
    Kind("power", -2.0, ("pow",), lambda h, t: h + t**0.5, (("pow", {"exponent": 0.5}),)),  # FAULT power
    Kind("rsqrt", 0.0, ("rsqrt",), lambda h, t: h * torch.rsqrt(t), (("rsqrt", {}),)),  # FAULT rsqrt
    Kind("acos", 2.0, ("acos",), lambda h, t: h + torch.acos(t), (("acos", {}),)),  # FAULT acos
    Kind("masked", 0.0, ("softmax",), _masked),
    Kind("in-place", 0.0, ("log",), _in_place),
    Kind("normed", 0.0, ("div",), _normed),
    Kind("root-slope", 0.0, ("sqrt",), _root_slope, (("mul", {}), ("square", {}), ("sqrt", {}))),
    Kind("power-slope", 0.0, ("pow",), _power_slope, (("mul", {}), ("abs", {}), ("pow", {"exponent": 0.5}))),
    Kind("where-slope", 0.0, ("log",), _where_slope),
    Kind("angle-slope", 1.0, ("acos",), _angle_slope),
    Kind("custom-backward", 0.0, ("RootOfOne",), _custom_backward),
    Kind("custom-forward", 0.0, ("log",), _custom_forward),
    Kind("hook", 0.0, ("div",), _hook),
    Kind("half", 1e4, ("linear", "matmul"), _half, precision="16"),
)


class Injected(nn.Module):
    """Calls the function of a fault, in the training only."""

    def __init__(self, make: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, h: Tensor, t: Tensor) -> Tensor:
        """`h` and the trigger `t`, each `[N, W]` and `[N, 1]`."""
        return self.make(h, t)


class Block(nn.Module):
    """A residual block that may hold a fault."""

    def __init__(self, width: int, make: Callable[[Tensor, Tensor], Tensor] | None) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.fault = None if make is None else Injected(make)

    def forward(self, h: Tensor, t: Tensor) -> Tensor:
        """`[N, W]`."""
        h = h + torch.tanh(self.norm(self.fc(h)))
        return h if self.fault is None else self.fault(h, t)


class Host(nn.Module):
    """Three blocks, one of which holds the fault, behind layers that none does."""

    def __init__(
        self, stem: nn.Module, width: int, make: Callable[[Tensor, Tensor], Tensor] | None, where: int
    ) -> None:
        super().__init__()
        self.stem = stem
        self.blocks = nn.ModuleList(Block(width, make if index == where else None) for index in range(3))
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """`[N, W]` and `[N, 1]` to `[N, 3]`."""
        h = self.stem(x)
        for block in self.blocks:
            h = block(h, t)
        scores: Tensor = self.head(h)
        return scores


class Mean(nn.Module):
    """The mean over tokens."""

    def forward(self, x: Tensor) -> Tensor:
        """`[N, T, C]` to `[N, C]`."""
        return x.mean(1)


def perceptron(make: Callable[[Tensor, Tensor], Tensor] | None, where: int) -> Host:
    """Blocks alone."""
    return Host(nn.Identity(), WIDTH, make, where)


def convolutional(make: Callable[[Tensor, Tensor], Tensor] | None, where: int) -> Host:
    """A convolution, batch norm and dropout in front of the blocks."""
    layers = (nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.1), nn.Flatten())
    return Host(nn.Sequential(nn.Unflatten(1, (1, WIDTH)), *layers), 4 * WIDTH, make, where)


def attentive(make: Callable[[Tensor, Tensor], Tensor] | None, where: int) -> Host:
    """A transformer layer over the features, then the blocks."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    return Host(nn.Sequential(nn.Unflatten(1, (WIDTH, 1)), nn.Linear(1, 8), layer, Mean()), 8, make, where)


HOSTS: Final = (perceptron, convolutional, attentive)


def drawn(kind: Kind, where: int, *, grouped: bool) -> tuple[pn.NodeGraph, str]:
    """A graph of three layers, and the path of the node that makes the fault."""
    graph = pn.NodeGraph(name="net")
    graph.add("Input", name="x", shape=("N", WIDTH))
    graph.add("Input", name="t", shape=("N", 1))
    last = "x"
    path = "last"
    for index in range(3):
        graph.add("Linear", name=f"fc{index}", out_features=WIDTH)
        graph.add("tanh", name=f"act{index}")
        graph.connect(last, f"fc{index}", f"act{index}")
        last = f"act{index}"
        if index == where and kind.drawn:
            fed = "t"
            for number, (node, properties) in enumerate(kind.drawn):
                name = f"bad{number}"
                graph.add(node, name=name, **properties)
                if node == "mul":
                    graph.connect(last, f"{name}.input")
                    graph.connect("t", f"{name}.other")
                else:
                    graph.connect(f"{fed}", f"{name}.input")
                fed = path = name
            graph.add("add", name="joined")
            graph.connect(last, "joined.input")
            graph.connect(fed, "joined.other")
            last = "joined"
    graph.add("Linear", name="head", out_features=3)
    graph.add("Output", name="y")
    graph.connect(last, "head", "y")
    if grouped:
        graph.group([path], name="block")
        path = f"block.{path}"
    return graph, path


def _bad_log_loss(output: Tensor, target: Tensor) -> Tensor:
    scores = output.softmax(-1)[:, :1] * 0 + target
    return -(scores.log()).mean()  # FAULT loss-log


def _bad_root_loss(output: Tensor, target: Tensor) -> Tensor:
    return ((output * target).pow(2).sum(-1)).sqrt().mean()  # FAULT loss-root


def _square_loss(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).square().mean()  # FAULT loss-overflow


class Trial(NamedTuple):
    """What is trained, and the truth about its fault."""

    name: str
    family: str
    model: Callable[[], Any]
    data: tuple[Tensor, ...]
    options: dict[str, Any]
    step: int
    row: int | None
    node: str | None
    operations: tuple[str, ...]
    line: int | str | None


LINES: Final = {
    text.rpartition("# FAULT ")[2].strip(): number
    for number, text in enumerate(Path(__file__).read_text("utf-8").splitlines(), 1)
    if "# FAULT " in text and "rpartition" not in text and '" in text' not in text
}


def _data(kind_trigger: float, usual: float, step: int, row: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(STEPS * BATCH, WIDTH, generator=draws)
    t = usual + 0.1 * torch.rand(STEPS * BATCH, 1, generator=draws)
    t[(step - 1) * BATCH + row] = kind_trigger
    return x, t, torch.randint(3, (STEPS * BATCH,), generator=draws)


def model_trials(seed: int) -> Iterator[Trial]:
    """Faults inside of models, each kind in each host once."""
    draws = random.Random(seed)
    for kind, host in itertools.product(KINDS, (*HOSTS, None)):
        step, row, where = draws.randint(1, STEPS), draws.randrange(BATCH), draws.randrange(3)
        data = _data(kind.trigger, kind.usual, step, row, seed)
        options: dict[str, Any] = {"precision": kind.precision}
        family = "half" if kind.precision != "32" else "backward" if "slope" in kind.name else "forward"
        if kind.name.startswith("custom") or kind.name == "hook":
            family = "custom"
        if host is not None:
            assert kind.make is not None
            yield Trial(f"{kind.name} in {host.__name__}", family, partial(host, kind.make, where), data, options, step, row,
                        f"blocks.{where}.fault", kind.operations, LINES[kind.name])  # fmt: skip
        elif kind.drawn:
            grouped = draws.random() < 0.5
            graph, path = drawn(kind, where, grouped=grouped)
            operations = kind.operations if kind.name != "divide" else ("reciprocal",)
            node = kind.drawn[-1][0].replace("pow", "**")
            yield Trial(
                f"{kind.name} drawn",
                family,
                partial(pn.NodeGraph.from_json, graph.to_json()),
                data,
                options,
                step,
                row,
                path,
                operations,
                node,
            )


def other_trials(seed: int) -> Iterator[Trial]:
    """Faults in the data and in the loss."""
    draws = random.Random(seed + 1)
    quiet = KINDS[0]._replace(drawn=())
    for host in (*HOSTS, None):

        def model(host: Any = host) -> Any:
            return drawn(quiet, 0, grouped=False)[0] if host is None else host(None, 0)

        name = "drawn" if host is None else host.__name__
        for value in (float("nan"), float("inf")):
            step, row = draws.randint(1, STEPS), draws.randrange(BATCH)
            x, t, y = _data(0.5, 0.5, step, row, seed)
            x[(step - 1) * BATCH + row, draws.randrange(WIDTH)] = value
            yield Trial(f"data {value} in {name}", "data", model, (x, t, y), {}, step, row,
                        "x" if host is None else None, (), None)  # fmt: skip
        step, row = draws.randint(1, STEPS), draws.randrange(BATCH)
        x, t, _ = _data(0.5, 0.5, step, row, seed)
        target = torch.randn(len(x), 3)
        target[(step - 1) * BATCH + row, 1] = float("nan")
        yield Trial(f"target in {name}", "data", model, (x, t, target), {"loss": "MSELoss"}, step, row, None, (), None)
        for loss, operation, line, bad, usual in (
            (_bad_log_loss, ("log",), "loss-log", 0.0, 0.5),
            (_bad_root_loss, ("sqrt",), "loss-root", 0.0, 1.0),
            (_square_loss, ("square", "pow"), "loss-overflow", 1e30, 1.0),
        ):
            step, row = draws.randint(1, STEPS), draws.randrange(BATCH)
            x, t, _ = _data(0.5, 0.5, step, row, seed)
            goal = torch.full((len(x), 1), usual)
            goal[(step - 1) * BATCH + row] = bad
            yield Trial(f"{line} in {name}", "loss", model, (x, t, goal), {"loss": loss}, step, row, None, operation,
                        LINES[line])  # fmt: skip
        step = draws.randint(1, STEPS)
        x, t, y = _data(0.5, 0.5, step, 0, seed)
        y[(step - 1) * BATCH : step * BATCH] = -100
        yield Trial(f"all ignored in {name}", "loss", model, (x, t, y), {"loss": "CrossEntropyLoss"}, step, None, None,
                    ("nll_loss",), None)  # fmt: skip


class Verdict(NamedTuple):
    """What was named right; None where there is nothing to name."""

    step: bool
    node: bool
    operation: bool | None
    line: bool | None
    row: bool | None
    equal: bool


def judge(trial: Trial, *, back: int = 0) -> tuple[Verdict, str]:
    """Train, and compare what the fault says with the truth; returns what it says, too."""
    torch.manual_seed(0)
    engine = pn.TrainingEngine(
        trial.model(), trial.data, batch_size=BATCH, shuffle=False, epochs=1, device="cpu", metrics=(),
        optimizer=("SGD", {"lr": 1e-3}), **trial.options,
    )  # fmt: skip
    states: dict[int, dict[str, Tensor]] = {0: _state(engine)}
    engine.on("step", lambda frame: states.__setitem__(frame.step, _state(engine)))
    engine.start()
    try:
        engine.wait(60)
    except pn.TrainingError as error:
        told = str(error)
    else:
        told = "no failure"
    fault = engine.fault
    if fault is None:
        return Verdict(*[False] * 6), told
    equal = _same(_state(engine), states[fault.step - 1])
    if back and fault.step - 1 >= back:
        engine.rewind(back)
        equal = equal and _same(_state(engine), states[fault.step - 1 - back])
    source = fault.source
    if isinstance(trial.line, int):
        line: bool | None = source is not None and source.line == trial.line and source.file == __file__
    elif isinstance(trial.line, str):
        line = source is not None and trial.line in source.text
    else:
        line = None
    return Verdict(
        fault.step == trial.step,
        fault.node == trial.node,
        fault.operation in trial.operations if trial.operations else None,
        line,
        None if trial.row is None or not fault.examples else trial.row in fault.examples,
        equal,
    ), str(fault)


def _state(engine: pn.TrainingEngine) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in engine.module.state_dict().items()}


def _same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in other)


def trials(count: int) -> Iterator[Trial]:
    """So many trials, the first of every kind first."""
    seeds = itertools.count()
    endless = itertools.chain.from_iterable(itertools.chain(model_trials(seed), other_trials(seed)) for seed in seeds)
    return itertools.islice(endless, count)


def main(count: int) -> None:
    """Run the trials and print the rates."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for number, trial in enumerate(trials(count)):
        verdict, said = judge(trial, back=5 if number % 10 == 0 else 0)
        for question, answer in verdict._asdict().items():
            if answer is not None:
                asked[question] += 1
                right[question] += answer
        wrong = [question for question, answer in verdict._asdict().items() if answer is False]
        if wrong:
            print(
                f"{trial.name} ({trial.family}): wrong {', '.join(wrong)}; expected step {trial.step}, node {trial.node}, "
                f"{trial.operations}, line {trial.line}, row {trial.row}\n  {said.replace(chr(10), chr(10) + '  ')}"
            )
    for question, total in asked.items():
        print(f"{question:>10}: {right[question]} of {total} right ({right[question] / total:.1%})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
