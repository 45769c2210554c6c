"""Locks: the table in docs/locks.md names every one, and each that threads really share holds under their fire."""

from __future__ import annotations

import ast
import copy
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.catalog.custom import called_function
from pnne_nb.graph.schema.registry import Registry, registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.process.bells import Bell
from pnne_nb.process.random_state import private_random_state, turn
from pnne_nb.process.subscribers import Subscribers
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.runtime.thread.cells import Cells
from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import StepFrame
from pnne_nb.telemetry.probe import Cadence

ROOT = Path(__file__).parents[1]
LOCKS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}
THREADS = 4
SECONDS = 60.0
"""That threads of a test have; a lock that is held for ever fails it by then."""


def locks_in_code() -> set[tuple[str, str]]:
    """File and name of everything that is made by a constructor of locks."""
    found = set()
    for path in (ROOT / "pnne_nb").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                made = {
                    ast.unparse(call.func).rsplit(".", 1)[-1]
                    for call in ast.walk(node.value)
                    if isinstance(call, ast.Call)
                }
                if made & LOCKS:
                    names = targets[0].elts if isinstance(targets[0], ast.Tuple) else targets[:1]
                    name = ast.unparse(names[0]).removeprefix("self.")
                    found.add((path.relative_to(ROOT / "pnne_nb").as_posix(), name))
    return found


def locks_in_table() -> Iterator[tuple[str, str]]:
    for line in (ROOT / "docs" / "locks.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            file, name, *_ = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
            yield file, name


def test_the_table_names_every_lock_once() -> None:
    table = list(locks_in_table())
    assert len(table) == len(set(table))
    assert set(table) == locks_in_code()


ORDER = (Path(__file__).parent / "lock_order.txt").read_text(encoding="utf-8")
"""What takes locks while others are held; prints the places in the code where each pair was made."""


def lines_of_locks() -> dict[tuple[str, int], tuple[str, str]]:
    """File and name of each lock by the lines that make it."""
    found = {}
    for file, name in locks_in_code():
        for node in ast.walk(ast.parse((ROOT / "pnne_nb" / file).read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if ast.unparse(target).removeprefix("self.") == name:
                    for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                        found[file, line] = file, name
    return found


@pytest.mark.timeout(300)
def test_threads_take_locks_in_the_order_of_the_table() -> None:
    run = subprocess.run([sys.executable, "-c", ORDER], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    places, order = lines_of_locks(), list(locks_in_table())
    pairs = set()
    for line in run.stdout.splitlines():
        outer, at, inner, where = line.split()
        both = [(name.partition("pnne_nb/")[2], int(number)) for name, number in ((outer, at), (inner, where))]
        if all(place in places for place in both):  # NumPy, too, makes some where it is called
            pairs.add((places[both[0]], places[both[1]]))
    assert len(pairs) > 5
    wrong = [(outer, inner) for outer, inner in pairs if outer != inner and order.index(outer) > order.index(inner)]
    assert wrong == []


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Has Python switch threads as often as it can: what is not guarded then breaks soon."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def together(*tasks: Callable[[], object]) -> None:
    """Run each in a thread, all at once; raises what one of them raises."""
    barrier, failed = threading.Barrier(len(tasks)), []

    def run(task: Callable[[], object]) -> None:
        try:
            barrier.wait(SECONDS)
            task()
        except BaseException as error:  # noqa: BLE001  raised again below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads), "A thread waits for a lock for ever."
    if failed:
        raise failed[0]


def test_subscribers_come_and_go_in_several_threads() -> None:
    subscribers = Subscribers[int]()

    def come_and_go() -> None:
        for number in range(300):
            leave = subscribers.add(number)
            if number:
                leave()

    together(*[come_and_go] * THREADS)
    assert list(subscribers) == [0] * THREADS


def test_frames_are_taken_out_once_or_counted_as_dropped() -> None:
    channel, taken = Channel(64), []

    def put() -> None:
        for step in range(500):
            channel.put(frame(step))

    def take() -> None:
        while channel.wait(SECONDS):
            taken.extend(channel.drain())

    consumer = threading.Thread(target=take)
    consumer.start()
    together(*[put] * THREADS)
    channel.close()
    consumer.join(SECONDS)
    assert len(taken) + channel.dropped == 500 * THREADS


def frame(step: int) -> StepFrame:
    return StepFrame(step=step, epoch=1, loss=float(step), learning_rate=0.1, examples=1, seconds=0.0)


def test_a_history_is_read_and_copied_while_it_grows() -> None:
    history = History(capacity=64)

    def record() -> None:
        for step in range(1, 2001):
            history.record(frame(step))

    def read() -> None:
        for _ in range(100):
            for each in (history, copy.copy(history)):
                steps, values = each.points("loss")
                assert steps.tolist() == values.tolist()
                assert steps.tolist() == sorted(steps)

    together(record, read, read)
    assert history.steps()[-1] == 2000


def test_probes_come_and_go_while_steps_are_watched() -> None:
    observers = Observers(lambda _: None)

    class Idle:
        def open(self, step: int) -> None: ...
        def gradients_ready(self) -> None: ...
        def updated(self) -> None: ...
        def close(self) -> tuple[()]:
            return ()

    def come_and_go() -> None:
        for _ in range(200):
            observers.add(Idle(), Cadence())()

    def watch() -> None:
        for step in range(200):
            with observers.watching(step):
                pass

    together(come_and_go, come_and_go, come_and_go, watch)
    assert observers.entries == ()


def test_edits_of_several_threads_are_all_made_and_told_in_order() -> None:
    graph, told = pn.NodeGraph(), []
    graph.observe(lambda transaction: told.append(transaction.version))

    def add(prefix: str) -> Callable[[], None]:
        def run() -> None:
            for number in range(40):
                graph.add("ReLU", name=f"{prefix}{number}")

        return run

    together(*[add(f"thread{number}_") for number in range(THREADS)])
    assert len(graph.nodes) == graph.version == 40 * THREADS
    assert told == list(range(1, 40 * THREADS + 1))


def test_types_are_registered_and_looked_up_at_once() -> None:
    types, provided = Registry(), []

    def provide() -> list[NodeSpec]:
        provided.append(1)
        return [NodeSpec(type="Given", category="Test", kind="module", target="torch.nn.ReLU")]

    types.provide(provide)

    def register(prefix: str) -> Callable[[], None]:
        def run() -> None:
            for number in range(50):
                types.register(
                    NodeSpec(type=f"{prefix}{number}", category="Test", kind="module", target="torch.nn.ReLU")
                )
                assert "Given" in types

        return run

    together(*[register(name) for name in "ABCD"])
    assert provided == [1]
    assert len(types) == 50 * THREADS + 1


def small() -> pn.NodeGraph:
    graph = pn.NodeGraph()
    x = graph.add("Input", name="x", shape=("N", 3))
    layer = graph.add("Linear", name="layer", out_features=5)
    out = graph.add("Output", name="out")
    graph.connect(x, layer)
    graph.connect(layer, out)
    return graph


def test_equal_graphs_become_one_class_whoever_compiles_them() -> None:
    graphs, made = [small() for _ in range(THREADS)], set[type[nn.Module]]()
    together(*[lambda graph=graph: made.add(type(pn.compile(graph))) for graph in graphs])
    assert len(made) == 1


def test_shapes_are_inferred_in_several_threads_and_warnings_are_as_before() -> None:
    before, found = list(warnings.filters), []
    graphs = [small() for _ in range(THREADS)]
    together(*[lambda graph=graph: found.append(pn.infer_shapes(graph)) for graph in graphs])
    assert all(each == found[0] for each in found)
    assert warnings.filters == before


def met(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_a_function_that_two_imports_meet_becomes_one_type() -> None:
    revision, found = registry.revision, []
    together(*[lambda: found.append(called_function(met))] * THREADS)
    assert {each.type for each in found} == {"tests.test_locks.met"}
    assert registry.revision == revision + 1


def test_private_random_numbers_are_nobody_else_s() -> None:
    drawn, before = set[tuple[float, ...]](), torch.get_rng_state()

    def draw() -> None:
        for _ in range(20):
            with private_random_state(7):
                drawn.add(tuple(torch.rand(3).tolist()))

    together(*[draw] * THREADS)
    assert len(drawn) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_what_waits_for_the_end_of_a_cell_is_called_once() -> None:
    cells, called = Cells(), []

    def run() -> None:
        for _ in range(200):
            cells.began()
            cells.ended()

    def ask(name: int) -> Callable[[], None]:
        def run() -> None:
            for number in range(200):
                cells.at_end(lambda number=number: called.append((name, number)))  # type: ignore[misc]  # one each

        return run

    together(run, ask(0), ask(1), ask(2))
    cells.began()
    cells.ended()
    assert len(called) == len(set(called)) == 3 * 200


def test_one_training_has_its_turn_at_a_time() -> None:
    inside, counted = [], [0]

    def step() -> None:
        for _ in range(200):
            with turn, turn:
                inside.append(1)
                assert len(inside) == 1
                counted[0] += 1
                inside.pop()

    together(*[step] * THREADS)
    assert counted == [200 * THREADS]


def test_a_bell_wakes_whoever_waits_each_time() -> None:
    there, back, rung = Bell(), Bell(), []

    def answer() -> None:
        for _ in range(300):
            assert there.wait(SECONDS)
            rung.append(1)
            back.ring()

    def ask() -> None:
        for _ in range(300):
            there.ring()
            assert back.wait(SECONDS)

    together(answer, ask)
    assert len(rung) == 300


def test_a_model_is_replaced_between_two_predictions_and_never_within_one() -> None:
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    inference, x = pn.InferenceEngine(one, batch_size=4), torch.randn(8, 3)
    expected = [model(x).detach() for model in (one, other)]

    def replace() -> None:
        for number in range(30):
            inference.refresh((one, other)[number % 2])

    def predict() -> None:
        for _ in range(30):
            for rows in inference.stream(x):
                assert any((rows - each[start : start + 4]).abs().max() < 1e-6 for each in expected for start in (0, 4))

    together(replace, predict, predict)
