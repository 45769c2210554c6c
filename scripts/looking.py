"""Looks at a training in every way that there is, and compares everything before and after: looking changes nothing.

`LOOKS` has every public function and method that looks, `DOES` every other public name, and `NETS` twenty nets. A trial looks
at one net in the middle of its training; the look ends as it does, or by an error or an interrupt in the middle of it, from
a hook at the call of some module. Compared are weights, buffers, gradients, optimizer, history, the random states of torch,
NumPy and Python, the place in the data, hooks, modes, and the functions and switches of torch; then the next 20 losses.

    python scripts/looking.py [part of a look's name] [part of a net's name]

prints the table of all trials. A test runs a part of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import random
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from ipywidgets.widgets.widget import _instances
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.data import DataLoader, TensorDataset

import pnne_nb as pn

Ending = Literal["returns", "raises", "interrupted"]
ENDINGS: Final[tuple[Ending, ...]] = ("returns", "raises", "interrupted")
AHEAD: Final = 20
"""Losses that are compared."""

# Nets: of vectors [n, 8], pictures [n, 1, 6, 6], sequences [n, 5, 4] or tokens [n, 5], with three classes


class Residual(nn.Module):
    """One layer, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Any:
        """Vectors."""
        return self.head(x + F.gelu(self.norm(self.first(x + self.first(x)))))


class Recurrent(nn.Module):
    """Scores the last step of a recurrent layer."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.cells, self.head = kind(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Any:
        """Sequences."""
        return self.head(self.cells(x)[0][:, -1])


class Attending(nn.Module):
    """One layer of a transformer over tokens whose embedding is tied to a second use."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Any:
        """Tokens."""
        return self.head(self.layer(self.embed(x)).mean(1) @ self.embed.weight.T)


class Noisy(nn.Module):
    """Draws from the generators of torch, NumPy and Python in each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Any:
        """Vectors."""
        if self.training:
            x = x + 0.01 * torch.randn_like(x) + float(np.random.rand()) * 0.01 + random.random() * 0.01  # noqa: NPY002
        return self.fc(x)


class Counting(nn.Module):
    """Counts its calls in a buffer, and keeps a running mean."""

    calls: Tensor
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> Any:
        """Vectors."""
        self.calls += 1
        self.mean.lerp_(x.detach().mean(0), 0.1)
        return self.fc(x - self.mean)


class Branching(nn.Module):
    """Takes one of two ways, by its data."""

    def __init__(self) -> None:
        super().__init__()
        self.ways = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 3)])

    def forward(self, x: Tensor) -> Any:
        """Vectors."""
        return 2 * self.ways[int(x.sum() > 0)](x)


def hooked() -> nn.Module:
    """A net with hooks of its own."""
    first = nn.Linear(8, 6)
    first.register_forward_hook(lambda _module, _given, output: output * 1.5)
    first.weight.register_hook(lambda gradient: gradient * 0.5)
    return nn.Sequential(first, nn.Tanh(), nn.Linear(6, 3))


def frozen() -> nn.Module:
    """A net whose first layer is frozen and whose norm stays in eval mode."""
    net = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    net[0].requires_grad_(False)
    return net


def tied() -> nn.Module:
    """Two layers with one weight."""
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 3))
    net[2].weight = net[0].weight
    return net


def normed() -> nn.Module:
    """Parametrized layers, of which one changes a buffer in each forward pass."""
    return nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(8, 6)),
        nn.ReLU(),
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)),
    )


VECTORS, PICTURES, SEQUENCES, TOKENS = (8,), (1, 6, 6), (5, 4), (5,)
NETS: Final[dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(8, 3)), VECTORS),
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), VECTORS),
    "dropout": (lambda: nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 3)), VECTORS),
    "batch norm": (lambda: nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 3)), VECTORS),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3)),
        PICTURES,
    ),
    "pooling": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)),
        PICTURES,
    ),
    "deconvolution": (
        lambda: nn.Sequential(nn.ConvTranspose2d(1, 2, 2), nn.RReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3)),
        PICTURES,
    ),
    "lstm": (lambda: Recurrent(nn.LSTM), SEQUENCES),
    "gru": (lambda: Recurrent(nn.GRU), SEQUENCES),
    "along a sequence": (lambda: nn.Sequential(nn.Conv1d(5, 4, 3), nn.ELU(), nn.Flatten(), nn.Linear(8, 3)), SEQUENCES),
    "transformer": (Attending, TOKENS),
    "bag of tokens": (lambda: nn.Sequential(nn.EmbeddingBag(7, 4), nn.Linear(4, 3)), TOKENS),
    "residual": (Residual, VECTORS),
    "tied": (tied, VECTORS),
    "normed": (normed, VECTORS),
    "frozen": (frozen, VECTORS),
    "hooked": (hooked, VECTORS),
    "noisy": (Noisy, VECTORS),
    "counting": (Counting, VECTORS),
    "branching": (Branching, VECTORS),
}  # fmt: skip


class Subject(NamedTuple):
    """A training in its first epoch, and what is told of it."""

    engine: pn.TrainingEngine
    net: nn.Module
    graph: pn.NodeGraph
    x: Tensor
    y: Tensor
    loader: DataLoader[Any]
    own: torch.optim.Optimizer


def subject(name: str) -> Subject:
    """Make a training of a net, every second one compiled from its graph, and make two steps of it."""
    make, shape = NETS[name]
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # the generator that models use
    net = make()
    is_compiled = list(NETS).index(name) % 2 == 1
    x = torch.randint(0, 7, (48, *shape)) if shape == TOKENS else torch.randn(48, *shape)
    y = torch.arange(48) % 3
    graph = pn.from_module(net, x[:2])
    if is_compiled:
        net = pn.compile(graph, reuse=net)
    engine = pn.TrainingEngine(net, (x, y), val_data=(x[:16], y[:16]), batch_size=8, epochs=9, device="cpu")
    engine.step(2)
    if name == "frozen":
        net.get_submodule("1").eval()
    own = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    loader = DataLoader(TensorDataset(x, y), 8, shuffle=True, generator=torch.Generator().manual_seed(3))
    return Subject(engine, net, graph, x, y, loader, own)


# Everything that a look could change

_WATCHED: Final[tuple[Any, ...]] = (
    torch, F, Tensor, nn.Module, nn.Parameter, torch.autograd, torch.random, torch.utils.data, torch.optim.Optimizer, np.random,
    random, __builtins__,
)  # fmt: skip


def _hash(*values: Any) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for value in values:
        if isinstance(value, Tensor):
            digest.update(value.detach().contiguous().view(-1).numpy().tobytes())
        digest.update(repr((id(value), value.dtype, value.shape) if isinstance(value, Tensor) else value).encode())
    return digest.hexdigest()


def _hooks(owner: Any, names: Iterable[str] = ()) -> list[tuple[str, tuple[Any, ...]]]:
    found = ((name, getattr(owner, name)) for name in names or vars(owner) if name.endswith("_hooks"))
    return [(name, tuple(held)) for name, held in found if isinstance(held, dict)]


def _spread(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _spread(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _spread(item)
    elif isinstance(value, Tensor):
        yield from (value.dtype, value.shape, value.tolist())
    else:
        yield value


def state(one: Subject) -> dict[str, object]:
    """Return hashes of all that there is about a training, by what it is."""
    net, engine = one.net, one.engine
    modules = dict(net.named_modules())
    parameters = list(net.parameters())
    found: dict[str, object] = {
        "weights": _hash(*net.parameters()),
        "buffers": _hash(*net.buffers()),
        "gradients": _hash(*(each.grad for each in parameters)),
        "frozen": [each.requires_grad for each in parameters],
        "modes": [(name, each.training) for name, each in modules.items()],
        "attributes": [(name, sorted(vars(each))) for name, each in modules.items()],
        "hooks of modules": [(name, _hooks(each)) for name, each in modules.items()],
        "hooks of weights": [_hooks(each, dir(each)) for each in parameters],
        "optimizer": _hash(*_spread(engine.optimizer.state_dict())),
        "own optimizer": _hash(*_spread(one.own.state_dict())),
        "history": [(name, engine.history[name].tolist()) for name in engine.history],
        "progress": (engine.progress.step, engine.progress.epoch, engine.state),
        "place in the data": _hash(one.loader.generator.get_state().tolist()),
        "torch's random state": _hash(torch.get_rng_state()[:].tolist()),
        "NumPy's random state": _hash(np.random.get_state()),  # noqa: NPY002
        "Python's random state": _hash(random.getstate()),
        "the graph": one.graph.to_json(),
        "data": _hash(one.x, one.y),
        "switches": (
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype(), torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(), torch.is_anomaly_enabled(), torch.is_autocast_enabled("cpu"),
            torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack(), torch.backends.mkldnn.enabled,
            torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.mha.get_fastpath_enabled(),
            Path.cwd(), threading.excepthook, sys.excepthook,
        ),
        "hooks of all modules": _hooks(torch.nn.modules.module),
    }  # fmt: skip
    for place in _WATCHED:
        values = place if isinstance(place, dict) else vars(place)
        found[f"functions of {getattr(place, '__name__', 'builtins')}"] = {
            key: id(each) for key, each in values.items()
        }
    return found


def changed(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return what differs; a module may have got further functions, which an import brings."""
    found = []
    for key, old in before.items():
        new = after[key]
        if isinstance(old, dict) and isinstance(new, dict):
            new = {name: new.get(name) for name in old}
            found += [f"{key}: {name}" for name in old if old[name] != new[name]]
        elif old != new:
            found.append(key)
    return found


# What looks


def _inspect(one: Subject) -> object:
    inspector = pn.Inspector(one.net)
    inspector.watch("*", what=("activations", "gradients"))
    inspector.run_inspection(one.x[:8], one.y[:8], nn.CrossEntropyLoss())
    name = next(iter(inspector.captured_data))
    return (
        inspector.get_statistics(name),
        inspector.summary(),
        inspector.diagnose(),
        inspector.histogram(name),
        inspector.plot(name),
    )


def _explore(one: Subject) -> object:
    explorer = pn.ModuleExplorer(one.net, one.loader, loss="CrossEntropyLoss")
    try:
        explorer.example = 3
        return explorer.describe(), explorer.to_svg()
    finally:
        explorer.close()


def _shown(make: Callable[[], Any]) -> object:
    widget = make()
    try:
        return widget._repr_mimebundle_(), repr(widget)
    finally:
        widget.close()


def _intervene(one: Subject) -> object:
    name = next(name for name, each in one.net.named_modules() if isinstance(each, nn.Linear | nn.Embedding))
    with pn.intervene(one.net, {name: pn.scale(0.5)}), torch.no_grad():
        return one.engine.evaluate((one.x, one.y))


def _layer(one: Subject) -> str:
    names: list[str] = [name for name, each in one.net.named_modules() if isinstance(each, nn.Linear) and name]
    return names[-1]


def _predict(one: Subject) -> object:
    engine = pn.InferenceEngine(one.net, device="cpu")
    try:
        return engine.predict(one.x[:4]), engine.top_k(one.x[:4], 2)
    finally:
        engine.close()


def _verify(one: Subject) -> object:
    return pn.verify(one.graph, one.net, one.x[:2])


def _anomaly(one: Subject) -> object:
    twin = one.engine.snapshot().eval()
    with pn.detect_anomaly(twin):
        return twin(one.x[:2])


def _golden(one: Subject) -> None:
    one.graph.save("golden.pnne.json")
    pn.assert_unchanged(one.graph, "golden.pnne.json")


LOOKS: Final[dict[str, Callable[[Subject], object]]] = {
    "summary": lambda one: pn.summary(one.net, one.x[:2]),
    "summary with times": lambda one: pn.summary(one.net, one.x[:2], times=True, optimizer=one.own),
    "profile": lambda one: pn.profile(one.net, one.x[:8], warmup=1, repeats=1),
    "benchmark": lambda one: pn.benchmark(one.net, one.x[:8], backward=True, seconds=0.01),
    "Inspector": _inspect,
    "ModuleExplorer": _explore,
    "diagnose": lambda one: pn.diagnose(one.engine),
    "check_export": lambda one: pn.check_export(one.graph, "onnx"),
    "check_gradients": lambda one: pn.check_gradients(one.net, one.x[:2]),
    "check_numerics": lambda one: pn.check_numerics(one.net, one.x[:8], one.y[:8], nn.CrossEntropyLoss()),
    "confusion": lambda one: (pn.confusion(one.engine), pn.confusion(one.engine, one.loader)),
    "worst": lambda one: (pn.worst(one.engine, 3), pn.worst(one.engine, 3, TensorDataset(one.x, one.y))),
    "plan_memory": lambda one: pn.plan_memory(one.graph, one.x[:8], training=True),
    "compare_targets": lambda one: pn.compare_targets(one.graph, (one.x, one.y), targets=["eager", "inference_mode"], seconds=0.5),
    "find_learning_rate": lambda one: pn.find_learning_rate(one.engine, steps=12, seeds=2),
    "verify": _verify,
    "to_source": lambda one: pn.to_source(one.graph),
    "to_script": lambda one: pn.to_script(one.engine),
    "attribute": lambda one: pn.attribute(one.net, one.x[:2], target=1, method="integrated-gradients", steps=4),
    "attribute by occlusion": lambda one: pn.attribute(one.net, one.x[:1], target=1, method="occlusion"),
    "explain": lambda one: pn.explain(pn.compile(one.graph, reuse=one.net)),
    "explain_value": lambda one: pn.explain_value(one.net, one.x[:1], _layer(one), (0, 0)),
    "receptive_field": lambda one: pn.receptive_field(one.net, one.x[:1], _layer(one), (0, 0)),
    "compare_layers": lambda one: pn.compare_layers(one.net, one.x[:8], other_data=one.x[8:16]),
    "project": lambda one: pn.project(one.net, one.x[:8], _layer(one)),
    "logit_lens": lambda one: pn.logit_lens(one.net, one.x[:1]),
    "patch_effects": lambda one: pn.patch_effects(one.net, one.x[:1], one.x[1:2], target=1),
    "intervene": _intervene,
    "infer_shapes": lambda one: pn.infer_shapes(one.graph),
    "from_module": lambda one: pn.from_module(one.net, one.x[:2]),
    "compile": lambda one: pn.compile(one.graph, reuse=one.net),
    "optimize_for_inference": lambda one: pn.optimize_for_inference(one.graph, one.x[:2], reuse=one.net),
    "transform": lambda one: pn.transform(one.graph, [pn.passes.RemoveIdentities()], one.x[:2], reuse=one.net),
    "quantize": lambda one: pn.quantize(one.graph, (one.x, one.y), kind="dynamic", reuse=one.net),
    "export": lambda one: pn.export(one.graph, "net.safetensors", reuse=one.net, overwrite=True),
    "save": lambda one: pn.save(one.graph, pn.compile(one.graph, reuse=one.net), "net.pnne", overwrite=True),
    "diff": lambda one: pn.diff(one.graph, one.graph).to_html("d.html"),
    "assert_unchanged": _golden,
    "detect_anomaly": _anomaly,
    "InferenceEngine": _predict,
    "generate": lambda one: pn.generate(one.net, [1, 2], 2),
    "app": lambda one: _shown(lambda: pn.app(one.engine)),
    "GraphEditor": lambda one: _shown(lambda: pn.GraphEditor(one.graph)),
    "TrainingDashboard": lambda one: _shown(lambda: pn.TrainingDashboard(one.engine)),
    "DecisionSurface": lambda one: _shown(lambda: pn.DecisionSurface(one.engine, (one.x, one.y), height=100)),
    "DeviceManager": lambda _: repr(pn.DeviceManager().devices),
    "check_setup": lambda _: repr(pn.check_setup()),
    "catalog": lambda _: repr(pn.catalog["Linear"]),
    "runs": lambda _: repr(pn.RunTable(Path())),
    "engine.evaluate": lambda one: (one.engine.evaluate((one.x, one.y)), one.engine.evaluate(one.loader)),
    "engine.predict": lambda one: (one.engine.predict(one.x[:4]), one.engine.predict(one.loader)),
    "engine.next_steps": lambda one: one.engine.next_steps(),
    "engine.snapshot": lambda one: one.engine.snapshot().eval()(one.x[:2]),
    "engine.save_checkpoint": lambda one: one.engine.save_checkpoint("made.ckpt"),
    "engine.history": lambda one: (one.engine.history.plot(), one.engine.history.to_frame(), one.engine.history._repr_html_()),
    "engine": lambda one: (repr(one.engine), one.engine._repr_html_(), one.engine.memory_needs),
    "graph": lambda one: (one.graph.to_svg(), one.graph._repr_mimebundle_(), one.graph.diagnostics(), one.graph.summary()),
}  # fmt: skip
"""Every way to look, by the public name that it is of."""

DOES: Final = frozenset(
    """
    blocks clamp columns compare datasets hugging_face_callback images keep lightning_callback load load_weights mean passes patch
    LearningRateFinder
    QuantizationEditor register_dataset register_field register_format register_node register_probe register_rule scale
    sequential sweep TargetDashboard TorchCompiler track TrainingEngine TrainingMonitor zero
    NodeGraph
    """.split()
)
"""Public names that make something or change what they are given, and widgets that show the results of a look."""


SLOW: Final = ("export", "check_export", "save", "compare_targets")
"""Looks that start a process or take seconds."""


class Stop(Exception):  # noqa: N818  # it stands for any error
    """What a hook raises in the middle of a look."""


@contextlib.contextmanager
def ended(ending: Ending, at: int) -> Iterator[list[int]]:
    """End the block at the call number `at` of a module in this thread; yields the number of calls."""
    calls, own = [0], threading.get_ident()

    def count(_module: nn.Module, _given: Any) -> None:
        if threading.get_ident() == own:
            calls[0] += 1
            if ending != "returns" and calls[0] == at:
                raise KeyboardInterrupt if ending == "interrupted" else Stop

    handle = register_module_forward_pre_hook(count)
    try:
        with contextlib.suppress(Stop, KeyboardInterrupt, pn.PnneError):
            yield calls
    finally:
        handle.remove()


def trial(look: str, one: Subject, ending: Ending, at: int = 1) -> tuple[list[str], int]:
    """Look once; returns what has changed, and how many calls of modules there were in this thread."""
    before, widgets = state(one), set(_instances)
    with ended(ending, at) as calls, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        with one.engine.paused():
            LOOKS[look](one)
    for widget in set(_instances) - widgets:  # those of a widget whose constructor was ended
        if widget in _instances:
            _instances[widget].close()
    return changed(before, state(one)), calls[0]


def losses_ahead(one: Subject) -> list[float]:
    """Make the next steps of the training, and return their losses."""
    one.engine.step(AHEAD)
    found: list[float] = one.engine.history["loss"].tolist()
    return found


def unplaced() -> tuple[set[str], set[str]]:
    """Return the public names that are neither looks nor deeds, and names here that are none; errors and results are neither."""
    public = {
        name
        for name in pn.__all__
        if not (isinstance(made := getattr(pn, name), type) and issubclass(made, BaseException))
    }
    placed = {name.partition(" ")[0] for name in LOOKS if "." not in name} | DOES | RESULTS
    return public - placed, {name for name in placed - {"engine", "graph"} if name not in public}


RESULTS: Final = frozenset(
    """
    Attribution Change Diagnostic Edge Explanation ExportFormat ExportReport Fault Finding GraphDifference
    Intervention LayerComparison LogitLens MemoryPlan Node NodeDifference NodeMark NodeSpec PatchEffects Prediction
    Projection QuantizationReport ReceptiveField RunTable TargetTable TensorSpec Transaction ValueExplanation
    VerificationReport WeightReport
    """.split()
)
"""Public names of values that others return."""


def main(look: str = "", net: str = "") -> int:
    """Run all trials of the looks and nets whose names hold the given parts; prints the table and what has changed."""
    wrong, folder = 0, tempfile.mkdtemp()
    os.chdir(folder)
    for name in (each for each in NETS if net in each):
        other = subject(name)
        expected = losses_ahead(other)
        other.engine.stop()
        row = []
        for each in (each for each in LOOKS if look in each):
            one = subject(name)
            found, calls = trial(each, one, "returns")
            places = sorted({1, max(1, calls // 2), calls} - ({1, calls} if each in SLOW else set())) if calls else []
            for ending, at in itertools.product(("raises", "interrupted"), places):
                found += trial(each, one, ending, at)[0]  # type: ignore[arg-type]  # one of the endings
            if losses_ahead(one) != expected:
                found.append(f"the next {AHEAD} losses")
            one.engine.stop()
            row.append("·" if not found else "X")
            if found:
                wrong += 1
                print(f"{name}, {each}: {', '.join(dict.fromkeys(found))}", flush=True)
        print(f"{name:18} {' '.join(row)}", flush=True)
    print(f"{wrong} of the looks have changed something")
    return wrong


if __name__ == "__main__":
    sys.exit(min(1, main(*sys.argv[1:])))
