"""What the notebook watches is ordered from a group; see `test_training_group` for the real ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.runtime.distributed.remote_probes import Ordered, RemoteProbes
from pnne_nb.runtime.distributed.transport.worker_messages import Observed, Order, Orders
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.telemetry.frames import HistogramFrame, NormsFrame
from pnne_nb.telemetry.probe import Cadence, Watch


def watch(layer: str) -> Watch:
    return Watch({layer: ("activations",)}, None, None)


def number_of_probes(ordered: Ordered) -> int:
    return len(ordered.observers.entries)


def test_orders_are_followed_until_there_are_others() -> None:
    told: list[Observed] = []
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    ordered = Ordered(LiveProbe.of, told.append)
    ordered.follow(Orders([Order(3, watch("0"), 1e9, 1.0)]), model, lambda: 1.0)
    assert number_of_probes(ordered) == 1
    with ordered.observers.watching(1):
        model(torch.ones(1, 2))
    assert told[0].order == 3
    assert {frame.layer for frame in told[0].frames if isinstance(frame, HistogramFrame)} == {"0"}
    ordered.follow(Orders([]), model, lambda: 1.0)
    assert number_of_probes(ordered) == 0
    ordered.follow(Orders([Order(4, watch("nowhere"), 1e9, 1.0)]), model, lambda: 1.0)
    assert number_of_probes(ordered) == 0
    assert "What is watched in the notebook cannot be watched in the group" in str(told[-1].frames)


def test_the_group_is_told_when_something_else_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pnne_nb.runtime.distributed.remote_probes._LOOK_EVERY", 0.0)
    model, published = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), list[object]()
    observers = Observers(published.extend)
    spectators = RemoteProbes(observers)
    assert spectators.news() is None
    probe, cadence = LiveProbe(model), Cadence()
    remove = observers.add(probe, cadence)
    news = spectators.news()
    assert news is not None
    assert [order.number for order in news.orders] == [1]
    assert spectators.news() is None
    cadence.hz = 1.0
    news = spectators.news()
    assert news is not None
    assert news.orders[0].hz == 1.0
    frame = NormsFrame(1, {}, 0.0)
    spectators.take(Observed(1, [frame]))
    assert published == [frame]
    spectators.forget()
    assert spectators.news() == news
    remove()
    assert spectators.news() == Orders([])
    spectators.take(Observed(1, [frame]))
    assert published == [frame]
