"""Every function that takes a graph or a model, on everything that it takes: what it computes must be what the net computes.

A cell of the table is a function, what it is given (a drawn or imported graph, a compiled model, a plain module, an engine, the
graph of an editor), and what was done to that before (nothing, an edit, a freed size). Its net is drawn by a seed.
"""

from __future__ import annotations

import copy
import gc
import itertools
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import pnne_nb as pn

WIDTH = 4
ROWS = 3
"""Rows of the example; outputs are compared at another number where the size was freed."""


class Scaled(nn.Module):
    """A layer of its own, with a table that is never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.table = nn.Parameter(torch.linspace(0.5, 1.5, WIDTH), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x) * self.table + x
        return out


def net_of(seed: int, *, drawable: bool = False) -> nn.Sequential:
    """Return a random net in eval mode, with weights and statistics that no constructor draws; `drawable`: of torch's layers."""
    draw = random.Random(seed)
    makers: list[Callable[[], nn.Module]] = [
        nn.ReLU, nn.Tanh, Scaled, lambda: nn.Linear(WIDTH, WIDTH), lambda: nn.LayerNorm(WIDTH),
        lambda: nn.BatchNorm1d(WIDTH), lambda: nn.Dropout(0.3),
    ]  # fmt: skip
    if drawable:
        makers.remove(Scaled)
    layers = [nn.Linear(WIDTH, WIDTH), *(draw.choice(makers)() for _ in range(draw.randint(1, 4))), nn.Linear(WIDTH, 3)]
    net = nn.Sequential(*layers).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*net.parameters(), *net.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.25)
    if draw.random() < 0.3:
        net[0].requires_grad_(requires_grad=False)
    return net


def data() -> tuple[Tensor, Tensor]:
    return torch.linspace(-1, 1, 16 * WIDTH).reshape(16, WIDTH), torch.arange(16) % 3


# What was done before


def fresh(_graph: pn.NodeGraph) -> None:
    """Do nothing."""


def edited(graph: pn.NodeGraph) -> None:
    """Rename, group, and put a layer in between that changes nothing."""
    names = [name for name, node in graph.nodes.items() if node.type not in ("Input", "Output")]
    graph.rename(names[0], "stem")
    edge = next(each for each in graph.edges if each.source.startswith("stem."))
    graph.disconnect(edge.source, edge.target)
    graph.connect("stem", graph.add("Identity", name="between"))
    graph.connect("between", edge.target)
    graph.group(["stem", "between"], name="block")
    graph.rename("block.stem", "first")
    graph.undo()
    graph.redo()


def freed(graph: pn.NodeGraph) -> None:
    """Free the number of rows."""
    name = next(name for name, node in graph.nodes.items() if node.type == "Input")
    graph.set(name, shape=("N", WIDTH))


# What is given


def drawn_graph(net: nn.Sequential, change: Callable[[pn.NodeGraph], None], _stack: ExitStack) -> Any:
    layers = [copy.deepcopy(layer) for layer in net]
    graph = pn.sequential(*layers, input=(ROWS if change is freed else "N", WIDTH))
    pn.load_weights(graph, net.state_dict())
    change(graph)
    return graph


def imported_graph(net: nn.Sequential, change: Callable[[pn.NodeGraph], None], _stack: ExitStack) -> Any:
    graph = pn.from_module(net, args=(torch.ones(ROWS, WIDTH),))
    change(graph)
    return graph


def compiled_model(net: nn.Sequential, change: Callable[[pn.NodeGraph], None], stack: ExitStack) -> Any:
    pn.compile(imported_graph(net, fresh, stack))  # which has the same source, and other sizes
    return pn.compile(imported_graph(net, change, stack))


def plain_module(net: nn.Sequential, change: Callable[[pn.NodeGraph], None], _stack: ExitStack) -> Any:
    return net if change is fresh else None


def engine(net: nn.Sequential, change: Callable[[pn.NodeGraph], None], stack: ExitStack) -> Any:
    return pn.TrainingEngine(imported_graph(net, change, stack), data(), device="cpu")


def editor_graph(net: nn.Sequential, change: Callable[[pn.NodeGraph], None], stack: ExitStack) -> Any:
    editor = pn.GraphEditor(net, args=(torch.ones(ROWS, WIDTH),))
    stack.callback(editor.close)
    change(editor.graph)
    return editor.graph


# What is done with it: each returns what computes, or None where the function does not take it


Computes = Callable[[Tensor], Tensor]


def compiles(given: Any, _x: Tensor, _folder: Path) -> Computes | None:
    return pn.compile(given).eval() if isinstance(given, pn.NodeGraph) else None


def compiles_copies(given: Any, _x: Tensor, _folder: Path) -> Computes | None:
    return pn.compile(copy.deepcopy(given)).eval() if isinstance(given, pn.NodeGraph) else None


def compiles_with_passes(given: Any, x: Tensor, _folder: Path) -> Computes | None:
    if not isinstance(given, pn.NodeGraph):
        return None
    return pn.TorchCompiler([pn.passes.RemoveIdentities()]).compile(given, args=(x,)).eval()


def optimizes(given: Any, x: Tensor, _folder: Path) -> Computes | None:
    if not isinstance(given, pn.NodeGraph):
        return None
    done = pn.optimize_for_inference(given, args=(x,))
    again, gave = pn.compile(done.graph).eval()(x), done.model(x)
    assert torch.equal(again, gave), "the new graph has other weights than the new model"
    return done.model


def predicts(given: Any, _x: Tensor, _folder: Path) -> Computes:
    return pn.InferenceEngine(given.model if isinstance(given, pn.TrainingEngine) else given, "cpu").predict


def trains(given: Any, _x: Tensor, _folder: Path) -> Computes:
    made = given if isinstance(given, pn.TrainingEngine) else pn.TrainingEngine(given, data(), device="cpu")
    return copy.deepcopy(made.model).eval()


def trains_and_stops(given: Any, _x: Tensor, _folder: Path) -> Computes | None:
    """Use the graph after a training, and train it again, which begins as the first time."""
    if not isinstance(given, pn.NodeGraph):
        return None
    made = pn.TrainingEngine(given, data(), optimizer=("SGD", {"lr": 0.1}), epochs=1, batch_size=8, device="cpu")
    made.start().wait()
    x = data()[0]
    used, trained = pn.InferenceEngine(given, "cpu").predict(x), pn.InferenceEngine(made.model, "cpu").predict(x)
    assert torch.equal(used, trained), "the graph is used with other weights than those of its training"
    return copy.deepcopy(pn.TrainingEngine(given, data(), device="cpu").model).eval()


def quantizes(given: Any, _x: Tensor, _folder: Path) -> Computes:
    """Convert to the precision that loses least."""
    model: Computes = pn.quantize(given, data(), budget=("val_loss", 0.0), kind="bfloat16").model
    return model


def saves(given: Any, _x: Tensor, folder: Path) -> Computes | None:
    if not isinstance(given, pn.NodeGraph):
        return None
    pn.save(given, pn.compile(given).eval(), folder / "net.pnne")
    graph, model = pn.load(folder / "net.pnne")
    again = pn.compile(graph).eval()
    return lambda x: again(x) + 0 * model(x)


def exports(given: Any, x: Tensor, folder: Path) -> Computes:
    report = pn.export(given, folder / "net.pt2", data=x)
    assert report.ok, report.headline
    return pn.InferenceEngine.load(folder / "net.pt2", trust=True).predict


def looks(given: Any, x: Tensor, _folder: Path) -> Computes | None:
    """Look in every way, and compute as before."""
    if isinstance(given, pn.TrainingEngine):
        return None
    pn.summary(given, x)
    model = pn.compile(given).eval() if isinstance(given, pn.NodeGraph) else given.eval()
    if isinstance(given, pn.NodeGraph):
        pn.plan_memory(given, args=(x,))
        pn.to_source(given)
    return model


STATES: tuple[Callable[[pn.NodeGraph], None], ...] = (fresh, edited, freed)
GIVEN = (drawn_graph, imported_graph, compiled_model, plain_module, engine, editor_graph)
QUICK = (compiles, compiles_copies, compiles_with_passes, predicts, trains, trains_and_stops, looks)
SLOW = (optimizes, quantizes, saves, exports)
"""What takes seconds."""

ROUNDING: dict[object, float] = {quantizes: 0.02}
"""What outputs may differ by, relative to the largest; 1e-5 for the others. Other weights make them differ by more than 0.1."""


class Cell(NamedTuple):
    function: Callable[[Any, Tensor, Path], Computes | None]
    given: Callable[[nn.Sequential, Callable[[pn.NodeGraph], None], ExitStack], Any]
    state: Callable[[pn.NodeGraph], None]

    def __str__(self) -> str:
        return f"{self.function.__name__}-{self.given.__name__}-{self.state.__name__}"


def cells(functions: tuple[Any, ...] = (*QUICK, *SLOW)) -> Iterator[Cell]:
    """Yield the table."""
    yield from itertools.starmap(Cell, itertools.product(functions, GIVEN, STATES))


def outcome(cell: Cell, seed: int) -> str:
    """Return ``"right"``, ``"not taken"``, ``"refused: …"``, ``"wrong: …"`` or ``"raw: …"``."""
    net = net_of(seed, drawable=cell.given is drawn_graph)
    rows = ROWS + 4 if cell.state is freed else ROWS
    x = torch.linspace(-1, 1, rows * WIDTH).reshape(rows, WIDTH)
    with torch.no_grad():
        wanted = net(x)
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        try:
            given = cell.given(net, cell.state, stack)
            computes = None if given is None else cell.function(given, x, Path(folder))
            if computes is None:
                return "not taken"
            with torch.no_grad():
                found = computes(x)
            most = ROUNDING.get(cell.function, 1e-5) * wanted.abs().max().item()
            same = found.shape == wanted.shape and (found - wanted).abs().max().item() <= most
        except AssertionError as error:
            return f"wrong: {error}"
        except pn.PnneError as error:
            return f"refused: {type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001  # whatever it is, it is counted
            return f"raw: {type(error).__name__}: {error}"
        finally:
            gc.collect()
    return "right" if same else f"wrong: by {(found - wanted).abs().max().item():.3g}"
