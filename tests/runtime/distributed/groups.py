"""Groups of real processes for the task of the runtime's tests, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
from torch import nn

from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime import tasks

SECONDS = 180.0
"""A group needs some seconds to start, many on a busy machine."""

_OF_THE_MACHINE = ("memory",)

TOLERANCE = 2e-6
"""Largest difference of a loss or weight from one process: sums of float32 in another order."""


def engine(model: nn.Module | NodeGraph | None = None, **options: Any) -> TrainingEngine:
    """An engine of the task whose last batch has one example: in two processes, one of them gets none."""
    settings = {"val_data": tasks.images(2), "batch_size": 19, **options}
    return tasks.engine(tasks.picture_graph() if model is None else model, **settings)


def drawn_training() -> NodeGraph:
    """The task as a training graph, with dropout, batch norm, and metrics of both kinds."""
    graph = NodeGraph(name="drawn")
    graph.add("Dataset", name="data", source="variable", data="pictures")
    graph.add("DataLoader", name="load", batch_size=19, shuffle=True)
    graph.add("Conv2d", name="conv", in_channels=1, out_channels=4, kernel_size=3)
    graph.add("BatchNorm2d", name="norm", num_features=4)
    graph.add("Flatten", name="flat")
    graph.add("Dropout", name="drop", p=0.3)
    graph.add("Linear", name="fc", in_features="auto", out_features=tasks.CLASSES)
    graph.add("CrossEntropyLoss", name="loss")
    graph.add("AdamW", name="optimizer", lr=0.01)
    graph.add("Metric", name="hits", metric="accuracy")
    graph.add("Metric", name="balance", metric="f1")
    for source, target in [
        ("data.dataset", "load.dataset"),
        ("load.input", "conv.input"),
        ("conv.output", "norm.input"),
        ("norm.output", "flat.input"),
        ("flat.output", "drop.input"),
        ("drop.output", "fc.input"),
        ("fc.output", "loss.input"),
        ("load.target", "loss.target"),
        *((f"{end}", f"{name}.{port}") for name in ("hits", "balance") for end, port in _COMPARED),
    ]:
        graph.connect(source, target)
    return graph


_COMPARED = (("fc.output", "input"), ("load.target", "target"))


def drawn_engine(pictures: Any = None, **options: Any) -> TrainingEngine:
    """An engine of `drawn_training`, whose variable is `pictures`."""
    return TrainingEngine.from_graph(
        drawn_training(),
        {"pictures": tasks.images() if pictures is None else pictures},
        **{"epochs": 3, "device": "cpu", **options},
    )


def state_of(engine: TrainingEngine) -> str:
    """The state as it is now, whatever the type checker believes since the last look."""
    return engine.state


def at_step(engine: TrainingEngine, step: int, act: Callable[[], object]) -> None:
    """Do something once, between two steps."""

    def reached(frame: Any) -> None:
        if frame.step == step and not done:
            done.append(step)
            act()

    done: list[int] = []
    engine.on("step", reached)


def assert_close(one: TrainingEngine, other: TrainingEngine, tolerance: float = TOLERANCE) -> None:
    """Insist that two trainings did the same: losses, metrics, weights."""
    names = [name for name in one.history if name not in _OF_THE_MACHINE]
    assert names == [name for name in other.history if name not in _OF_THE_MACHINE]
    for name in names:
        np.testing.assert_allclose(one.history[name], other.history[name], rtol=0, atol=tolerance, err_msg=name)
    for name, value in one.model.state_dict().items():
        np.testing.assert_allclose(value, other.model.state_dict()[name], rtol=0, atol=tolerance, err_msg=name)


def children() -> list[psutil.Process]:
    """Every process that this one has started, and those that they have, but for the standard library's own helper."""
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return [process for process in found if not _is_resource_tracker(process)]


def _is_resource_tracker(process: psutil.Process) -> bool:
    """Return whether a process is the one that `multiprocessing` starts once and keeps."""
    try:
        return any("resource_tracker" in part for part in process.cmdline())
    except psutil.Error:
        return False


def assert_gone(processes: list[psutil.Process]) -> None:
    """Insist that processes end soon."""
    _, alive = psutil.wait_procs(processes, timeout=SECONDS)
    assert not alive
