"""Try on a GPU what no other machine can try, and write a table of it in Markdown.

    python scripts/gpu_checks.py [--device cuda] [--seconds 480] [--only WORDS] [--output FILE]

Runs the tests that need CUDA, then imports, exports, trainings and predictions of small nets on the device, and times them
against plain PyTorch. A check that fails or is not possible here is a row of the table too, and so is each for which the
seconds were over. What can end or hang the process runs in one of its own. `--device cpu` tries the script itself
where there is no GPU. Exits with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import copy
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

import pnne_nb as pn
from tests.runtime.tasks import CLASSES, engine, images, network, picture_graph

ROOT = Path(__file__).parents[1]
CHECKS: dict[str, Callable[[torch.device], str]] = {}
ALONE: dict[str, Callable[[torch.device], None]] = {}
"""What runs in a process of its own: ``python scripts/gpu_checks.py --alone NAME --device DEVICE``."""


_until = [time.monotonic() + 86_400.0]
"""When the seconds are over; set when the checks begin."""


class ImpossibleError(Exception):
    """A check that cannot be made here; says why."""


def _left(most: float) -> float:
    """Return how many seconds a part of a check may take: `most`, or what is left of all.

    Raises:
        ImpossibleError: If nothing is left.
    """
    left = _until[0] - time.monotonic()
    if left <= 0:
        raise ImpossibleError("the seconds were over")
    return min(most, left)


@dataclass(frozen=True)
class Row:
    """One line of the table: a check, what became of it, and its figures; it took so many seconds."""

    name: str
    result: str
    figure: str
    seconds: float


def _check(name: str) -> Callable[[Callable[[torch.device], str]], Callable[[torch.device], str]]:
    def add(function: Callable[[torch.device], str]) -> Callable[[torch.device], str]:
        CHECKS[name] = function
        return function

    return add


def _alone(function: Callable[[torch.device], None]) -> Callable[[torch.device], None]:
    ALONE[function.__name__.removeprefix("_")] = function
    return function


def _in_a_process(name: str, device: torch.device, seconds: float = 90.0) -> str:
    """Return what a function of `ALONE` prints last; an error if it fails or does not end."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__)), "--alone", name, "--device", str(device)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_left(seconds), check=False, cwd=ROOT)
    except subprocess.TimeoutExpired as error:
        _left(seconds)
        raise AssertionError(f"no end after {seconds:g} s") from error
    last = (done.stdout.strip().splitlines() or [""])[-1]
    assert done.returncode == 0, last or done.stderr.strip().splitlines()[-1]
    return last


def _convolutions() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


class Residual(nn.Module):
    """Blocks as those of a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.one, self.two = (nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16)) for _ in range(2))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in (self.one, self.two):
            x = torch.relu(x + block(x))
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


class Scattered(nn.Module):
    """Adds rows at indices, which a GPU does in no fixed order."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Linear(8, 8)

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        return torch.zeros(4, 8, device=x.device).index_add(0, places, self.rows(x))


def _mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _seconds_of(call: Callable[[], object], device: torch.device, times: int) -> float:
    call()
    _wait(device)
    start = time.perf_counter()
    for _ in range(times):
        call()
    _wait(device)
    return (time.perf_counter() - start) / times


def _ratio(mine: Callable[[], object], other: Callable[[], object], device: torch.device, times: int) -> str:
    """Return how long `mine` takes, divided by `other`, over turns: ``1.02 [1.00, 1.05]``."""
    found = []
    for _ in range(9):
        _left(0)
        found.append(_seconds_of(mine, device, times) / _seconds_of(other, device, times))
    found.sort()
    return f"{statistics.median(found):.3f} [{found[0]:.3f}, {found[-1]:.3f}]"


# Tests


@_check("tests that need CUDA")
def _cuda_tests(device: torch.device) -> str:
    only = ["-k", "cpu"] if device.type == "cpu" else []
    off = ["-p", "no:cacheprovider", "-p", "no:benchmark"]
    command = [sys.executable, "-m", "pytest", "tests/runtime/test_accelerator.py", "-q", *off, *only]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_left(240), check=False, cwd=ROOT)
    except subprocess.TimeoutExpired as error:
        raise ImpossibleError(f"no end after {error.timeout:.0f} s") from error
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode > 1:
        raise ImpossibleError(f"pytest does not run here: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    assert done.returncode == 0, last
    return last.strip("= ")


# Imports and files


@_check("from_module")
def _imports(device: torch.device) -> str:
    pictures = torch.randn(4, 3, 16, 16, device=device)
    upsampling = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 4, 3))
    nets: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
        "convolutions": (_convolutions(), (pictures,)),
        "residual": (Residual(), (pictures,)),
        "upsampling": (upsampling, (pictures,)),
        "reflection": (nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 4, 3)), (pictures,)),
        "3d": (nn.Sequential(nn.Conv3d(3, 4, 3), nn.BatchNorm3d(4)), (torch.randn(2, 3, 6, 6, 6, device=device),)),
        "index_add": (Scattered(), (torch.randn(9, 8, device=device), torch.arange(9, device=device) % 4)),
    }
    times = []
    for name, (net, args) in nets.items():
        _left(0)
        start = time.perf_counter()
        graph = pn.from_module(net.to(device), args=args)
        times.append(f"{name} {time.perf_counter() - start:.1f} s")
        closed = [
            node.name for node in graph.nodes.values() if node.origin is not None and node.origin.proof == "opaque"
        ]
        assert not closed, f"{name}: closed: {closed}"
    return ", ".join(times)


@_check("export")
def _export(device: torch.device) -> str:
    net, data = _convolutions().to(device).eval(), torch.randn(8, 3, 16, 16, device=device)
    done = []
    with tempfile.TemporaryDirectory() as folder:
        for end in (".onnx", ".pt2", ".ts", ".safetensors", ".pt"):
            _left(0)
            report = pn.export(net, Path(folder) / f"net{end}", data=data)
            assert report.ok, f"{end}: {report}"
            done.append(end)
    assert next(net.parameters()).device.type == device.type
    return " ".join(done)


@_check("quantize, optimize_for_inference")
def _conversions(device: torch.device) -> str:
    pictures, classes = images()
    model = pn.compile(picture_graph()).to(device).eval()
    report = pn.quantize(picture_graph(), (pictures.to(device), classes.to(device)), reuse=model)
    done = pn.optimize_for_inference(picture_graph(), args=(pictures,), reuse=model)
    torch.testing.assert_close(done.model(pictures.to(device)), model(pictures.to(device)), rtol=1e-3, atol=1e-3)
    return f"{len(report.converted)} nodes in int8"


@_check("PlaceNodes from the CPU to the device")
def _placing(device: torch.device) -> str:
    place = pn.passes.PlaceNodes({"fc": str(device)})
    done = pn.TorchCompiler(passes=[place]).transform(picture_graph(), args=(images()[0],))
    assert done.reports[0].changes, str(done)
    return str(done.reports[0].proof)


@_check("compare_targets")
def _targets(device: torch.device) -> str:
    torch.manual_seed(0)
    data = torch.randn(96, 3, 16, 16, device=device), torch.arange(96, device=device) % 10
    table = pn.compare_targets(_convolutions().to(device), data, seconds=_left(60))
    found = [
        f"{row.name} {row.latency.ratio.value:.2f}" if row.latency is not None else f"{row.name}: {row.missing}"
        for row in table.rows.values()
        if row.device == "gpu" or row.name == "eager"
    ]
    return "; ".join([*found, *(note for note in table.notes if "CUDA" in note)])


# Trainings


@_alone
def _wrong_class(device: torch.device) -> None:
    pictures, classes = images()
    made = engine(device=str(device), train_data=(pictures, classes + 1))
    try:
        made.start()
        made.wait()
    except pn.TargetError as error:
        torch.ones(1, device=device).sum().item()  # the device still computes
        print(str(error).partition(".")[0])
        return
    raise AssertionError("nothing was said")


@_alone
def _checkpointing(device: torch.device) -> None:
    graph = picture_graph()
    graph.set("conv1", checkpoint=True)
    made = engine(model=graph, device=str(device))
    made.start()
    assert made.wait(60)
    print(f"{len(made.history['loss'])} steps")


@_alone
def _killed(device: torch.device) -> None:
    engine(
        device=str(device), epochs=10**6, checkpoint_dir=os.environ["PNNE_RUN"], checkpoint_every=(3, "steps")
    ).start()
    time.sleep(600)


@_check("a class that does not exist")
def _wrong_class_is_told(device: torch.device) -> str:
    return _in_a_process("wrong_class", device)


@_check("activation checkpointing")
def _checkpointing_ends(device: torch.device) -> str:
    return _in_a_process("checkpointing", device)


@_check("kill and resume")
def _kill(device: torch.device) -> str:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", str(Path(__file__)), "--alone", "killed", "--device", str(device)]
        process = subprocess.Popen(command, env={**os.environ, "PNNE_RUN": folder}, cwd=ROOT)
        wait = _left(120)
        until = time.monotonic() + wait
        while not list(Path(folder).glob("*.ckpt")) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.2)
        time.sleep(1.0)
        ended = process.poll()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert ended is None, f"it ended by itself with {ended}"
        if not list(Path(folder).glob("*.ckpt")):
            raise ImpossibleError(f"no checkpoint after {wait:.0f} s")
        resumed = pn.TrainingEngine.resume_from(folder, network(), images())
        at = len(resumed.history["loss"])
        resumed.step(5)
        resumed.stop()
        losses = resumed.history["loss"]
    straight = engine(device=str(device), epochs=10**6)
    straight.step(min(at + 5, 400))
    straight.stop()
    count = min(len(losses), len(straight.history["loss"]))
    gap = float(abs(losses[:count] - straight.history["loss"][:count]).max())
    assert at > 0, "no checkpoint"
    assert gap < (0.05 if device.type == "cuda" else 1e-12), f"losses differ by {gap:.1e}"
    return f"killed after step {at}; {count} losses differ by up to {gap:.1e}"


@_check("a process of its own")
def _process(device: torch.device) -> str:
    losses = []
    for own in (False, True):
        made = engine(device=str(device))
        made.start(process=own)
        assert made.wait(90)
        losses.append(made.history["loss"])
    gap = float(abs(losses[0] - losses[1]).max())
    assert gap < (1e-2 if device.type == "cuda" else 1e-12), f"losses differ by {gap:.1e}"
    return f"losses differ by up to {gap:.1e}"


@_check("rewind")
def _rewind(device: torch.device) -> str:
    said = []
    for deterministic in (False, True):
        made = engine(device=str(device), epochs=20, deterministic=deterministic)
        made.step(30)
        made.rewind(7)
        made.stop()
        (message,) = (frame.message for frame in made.history.anomalies if frame.kind == "rewound")
        assert not (deterministic and "not bit for bit" in message), message
        said.append(f"deterministic={deterministic}: {'near' if 'not bit for bit' in message else 'equal bits'}")
    return ", ".join(said)


@_check("precision")
def _precision(device: torch.device) -> str:
    said = []
    for name in ("32", "bf16", "16"):
        made = engine(device=str(device), precision=name, epochs=8)
        made.start()
        assert made.wait(60)
        losses = made.history["train_loss"]
        assert losses[-1] < 0.8 * losses[0], f"{name}: {losses}"
        said.append(f"{name}: {losses[0]:.2f} to {losses[-1]:.2f}")
    return ", ".join(said)


@_check("NaN")
def _nan(device: torch.device) -> str:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x - x.amax()).sub(1.0).sqrt()

    torch.manual_seed(0)
    found = []
    for name in ("32", "bf16", "16"):
        model = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), Root(), nn.Linear(16, CLASSES))
        made = engine(model=model, device=str(device), precision=name)
        made.start()
        try:
            made.wait(60)
        except pn.TrainingError:
            assert made.fault is not None
            found.append(f"{name}: {made.fault.node} {made.fault.operation}")
    assert len(found) == 3, found
    return ", ".join(found)


# Times


@_check("waits for the GPU in a step")
def _waits(device: torch.device) -> str:
    if device.type != "cuda":
        raise ImpossibleError("the CPU is not waited for")
    said = []
    for name in ("32", "16"):
        made = engine(device=str(device), precision=name, epochs=40)
        made.rewind_memory = 0
        made.step(40)
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                made.step(12)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        made.stop()
        said.append(f"{name}: {sum('synchroniz' in str(each.message) for each in caught) / 12:.1f}")
    return ", ".join(said)


@_check("engine ÷ bare loop")
def _against_a_bare_loop(device: torch.device) -> str:
    sizes = {"MLP": (_mlp, (64,), 2048), "CNN": (_convolutions, (3, 32, 32), 1024)}
    said = []
    for name, (make, shape, count) in sizes.items():
        torch.manual_seed(0)
        data = torch.randn(count, *shape), torch.arange(count) % 10

        def own(make: Any = make, data: Any = data) -> None:
            made = pn.TrainingEngine(make(), data, loss="CrossEntropyLoss", epochs=1, batch_size=64, device=str(device))
            made.start()
            made.wait()

        def bare(make: Any = make, data: Any = data) -> None:
            model, loss = make().to(device).train(), nn.CrossEntropyLoss()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            for chosen in torch.randperm(len(data[0])).split(64):
                x, y = (part[chosen].to(device) for part in data)
                optimizer.zero_grad()
                value = loss(model(x), y)
                value.backward()
                optimizer.step()
                value.item()

        said.append(f"{name} {_ratio(own, bare, device, 1)}")
    return ", ".join(said)


@_check("compiled ÷ by hand, forward")
def _compiled(device: torch.device) -> str:
    said = []
    for name, net, x in (("MLP", _mlp(), torch.randn(64, 64)), ("CNN", _convolutions(), torch.randn(32, 3, 32, 32))):
        hand, x = net.to(device).eval(), x.to(device)
        mine = pn.compile(pn.from_module(hand, args=(x,)), reuse=hand).eval()
        with torch.inference_mode():
            said.append(f"{name} {_ratio(lambda m=mine, x=x: m(x), lambda h=hand, x=x: h(x), device, 50)}")  # type: ignore[misc]  # bound here
    return ", ".join(said)


@_check("predict at batch 1")
def _predict(device: torch.device) -> str:
    net, x = _mlp().to(device).eval(), torch.randn(1, 64)
    inference = pn.InferenceEngine(net, device=device)

    def raw() -> None:
        with torch.inference_mode():
            net(x.to(device)).cpu()

    own, plain = (
        statistics.median(_seconds_of(call, device, 100) for _ in range(7))
        for call in (lambda: inference.predict(x), raw)
    )
    said = f"{1e6 * plain:.0f} µs raw, {1e6 * own:.0f} µs predict, {1e6 * (own - plain):.0f} µs more"
    if device.type == "cuda":
        graphs = pn.InferenceEngine(net, device=device, cuda_graphs=True)
        said += f", {1e6 * _seconds_of(lambda: graphs.predict(x), device, 100):.0f} µs CUDA graphs"
    return said


@_check("memory plan ÷ peak of a training step")
def _memory(device: torch.device) -> str:
    if device.type != "cuda":
        raise ImpossibleError("torch measures no peak on the CPU")
    x = torch.randn(256, 3, 32, 32)
    graph = pn.from_module(_convolutions(), args=(x[:2],))
    plan = pn.plan_memory(graph, (x,), training=True, optimizer=None)
    model = pn.compile(graph, reuse=copy.deepcopy(_convolutions())).to(device)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    model(x.to(device)).square().mean().backward()
    return f"{plan.peak / max(1, torch.cuda.max_memory_allocated() - before):.2f}"


def _run(device: torch.device, seconds: float, only: str) -> list[Row]:
    rows: list[Row] = []
    _until[0] = time.monotonic() + seconds
    for name, function in CHECKS.items():
        if only not in name:
            continue
        start = time.monotonic()
        try:
            _left(0)
            result, figure = "right", function(device)
        except ImpossibleError as error:
            result, figure = "not tried", str(error)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a row
            said = " ".join(f"{type(error).__name__}: {error}".split())
            result, figure = "WRONG", said[:300]
        rows.append(Row(name, result, figure.replace("|", "/"), time.monotonic() - start))
        print(f"{result:10} {name}: {rows[-1].figure} ({rows[-1].seconds:.0f} s)", flush=True)
    return rows


def _table(rows: list[Row], device: torch.device) -> str:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    version = f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}"
    lines = [f"Measured on {name}, {version}, in {sum(row.seconds for row in rows):.0f} s.", ""]
    lines += ["| Check | Result | Figures |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {row.name} | {row.result} | {row.figure} |" for row in rows)])


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--only", default="", help="checks whose name contains these words")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--alone", choices=sorted(ALONE), help=argparse.SUPPRESS)
    given = parser.parse_args()
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("There is no CUDA device here: --device cpu tries the script itself.")
        return 1
    if given.alone:
        ALONE[given.alone](device)
        sys.stdout.flush()
        os._exit(0)
    warnings.simplefilter("ignore")
    rows = _run(device, given.seconds, given.only)
    text = _table(rows, device)
    print(f"\n{text}")
    if given.output is not None:
        given.output.write_text(f"{text}\n", encoding="utf-8")
    return int(any(row.result == "WRONG" for row in rows))


if __name__ == "__main__":
    raise SystemExit(_main())
