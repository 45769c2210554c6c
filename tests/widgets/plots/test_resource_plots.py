from __future__ import annotations

import numpy as np
import pytest

from pnne_nb.runtime.monitoring.resources import Stages, in_words, shares
from pnne_nb.telemetry.frames import DeviceMemory, MemoryFrame, TimeFrame
from pnne_nb.widgets.plots.resource_plots import GIB, STAGES, MemoryPlot, TimePlot

pytestmark = pytest.mark.usefixtures("own_widgets")


def test_memory_of_the_process_alone() -> None:
    plot = MemoryPlot()
    plot.draw()
    for step, used in ((1, 1.0), (50, 1.5)):
        plot.take(MemoryFrame(step, int(used * GIB), {}))
    plot.draw()
    (lines,) = plot.figure.marks
    assert lines.x.tolist() == [1, 50]
    assert lines.y.reshape(-1).tolist() == [1.0, 1.5]
    heading = plot.view.children[0].value
    assert "process" in heading
    assert "peak" not in heading


def test_memory_of_accelerators_beside_it() -> None:
    plot = MemoryPlot()
    for step in (1, 2):
        used = DeviceMemory(allocated=int(GIB), reserved=int(2 * GIB), peak=int(3 * GIB))
        plot.take(MemoryFrame(step, int(GIB / 2), {"cuda:0": used}))
    plot.draw()
    assert plot.figure.marks[0].y.tolist() == [[0.5, 0.5], [1.0, 1.0], [2.0, 2.0]]
    assert "cuda:0 peak 3.0 GiB" in plot.view.children[0].value


def test_where_the_time_goes() -> None:
    plot = TimePlot()
    plot.take(TimeFrame(1, dict.fromkeys(STAGES, 0.0), "Time: ."))
    plot.draw()
    assert plot.words.value == "Measured while the training runs."
    found = {"data": 0.75, "forward": 0.25}
    plot.take(TimeFrame(2, found, in_words(found)))
    plot.draw()
    np.testing.assert_allclose(plot.figure.marks[0].y, [75, 25, 0, 0, 0, 0, 0])
    assert plot.words.value.startswith("Time: fetching data 75%, forward 25%. The training waits for its data: load")


def test_advice_for_slow_data_knows_who_loads_it() -> None:
    slow = {"data": 0.75, "forward": 0.25}
    assert "load it with num_workers=2 or more" in in_words(slow, 0)
    assert "num_workers=4 are not enough, or wait for a disk: try 8" in in_words(slow, 4)
    assert "a larger batch_size" in in_words(slow, None)
    assert "workers" not in in_words(slow, None)


def test_every_stage_has_its_bar() -> None:
    assert list(Stages().seconds) == list(STAGES)


@pytest.mark.parametrize("data", [0.0, 0.39])
def test_fast_data_needs_no_advice(data: float) -> None:
    words = in_words({"data": data, "forward": 1 - data})
    assert words.endswith("%.")
    assert "waits" not in words


def test_shares_of_the_time_since_the_last_look() -> None:
    before, now = Stages().seconds, Stages().seconds
    before["data"], now["data"], now["forward"] = 4.0, 5.0, 3.0
    assert shares(now, before)["data"] == 0.25
    assert set(shares(before, before).values()) == {0.0}
