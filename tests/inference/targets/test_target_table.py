from __future__ import annotations

import random
import time

import pytest

from pnne_nb.inference.targets.target_table import DRIFT, Measured, time_in_turns


def test_what_takes_twice_as_long_is_measured_so(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def spend(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    found = time_in_turns({"one": lambda: spend(0.001), "two": lambda: spend(0.002)}, seconds=0.05)
    assert found["one"].ratio.value == pytest.approx(1.0)
    assert found["two"].ratio.value == pytest.approx(2.0)
    assert found["two"].p50.value == pytest.approx(0.002)
    for latency in found.values():
        assert latency.p50.low <= latency.p50.value <= latency.p50.high
        assert latency.p50.value <= latency.p95.value
        assert latency.calls >= 36


def test_an_interval_holds_the_median_of_later_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(0)
    now = [0.0]

    def noisy() -> None:
        now[0] += 0.001 * chance.lognormvariate(0.0, 0.1)

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    runs = [time_in_turns({"one": noisy}, seconds=0.05)["one"].p50 for _ in range(30)]
    held = [one.low <= later.value <= one.high for place, one in enumerate(runs) for later in runs[place + 1 :]]
    assert sum(held) >= 0.9 * len(held)
    widest = max(one.high / one.low for one in runs)
    assert widest < 1.25 * DRIFT**2, "an interval that holds everything says nothing"


def test_each_gets_turns_in_a_changing_order() -> None:
    order: list[str] = []
    time_in_turns({name: lambda name=name: order.append(name) for name in "abc"}, seconds=0.0, rounds=3)  # type: ignore[misc]  # bound early
    timed = order[9:]  # three calls each find out how long one takes
    assert timed == [*"aaabbbccc", *"bbbcccaaa", *"cccaaabbb"]


def test_intervals_overlap_where_they_have_a_value_in_common() -> None:
    assert Measured(1, 0.5, 2).overlaps(Measured(3, 2, 4))
    assert not Measured(1, 0.5, 1.5).overlaps(Measured(3, 2, 4))


def test_what_other_programs_stop_now_and_then_is_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of two threads wait for each other: on a busy machine, some take a hundred times as long."""
    chance = random.Random(0)
    now = [0.0]

    def two_threads() -> None:
        now[0] += 0.0003 * chance.lognormvariate(0.0, 0.1) + (
            chance.expovariate(1 / 0.03) if chance.random() < 0.3 else 0.0
        )

    def one_thread() -> None:
        now[0] += 0.00005 * chance.lognormvariate(0.0, 0.1)

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    runs = [time_in_turns({"eager": two_threads, "file": one_thread}, seconds=0.02) for _ in range(30)]
    assert all(run["file"].ratio.high < 1 for run in runs)
    for name in ("eager", "file"):
        for figure in ("p50", "ratio"):
            found: list[Measured] = [getattr(run[name], figure) for run in runs]
            held = [
                one.low <= later.value <= one.high for place, one in enumerate(found) for later in found[place + 1 :]
            ]
            assert sum(held) >= 0.9 * len(held), (name, figure, sum(held) / len(held))
