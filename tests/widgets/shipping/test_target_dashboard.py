"""The table of forms is shown while it is made, and can be cut short; what it ends with is what `pn.compare_targets` finds."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.inference.targets import compare
from pnne_nb.inference.targets.forms import Built, Form, Workshop

DATA = (torch.randn(64, 6, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 3)
QUICK = ("eager", "inference_mode, channels_last", "int8 in eager PyTorch")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "TIMING_SECONDS", 0.02)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)).eval()


def test_it_ends_with_the_table_and_a_bar_for_each_figure() -> None:
    shown = pn.TargetDashboard(network(), DATA, targets=QUICK)
    table = shown.wait(120)
    assert shown.table is table
    assert list(table.rows) == list(QUICK)
    assert table.recommendation in repr(shown)
    assert table.recommendation in shown._said.value
    for name in (*QUICK, "p50", "p95", "examples/s", "size", "memory", "val_accuracy", "worst error"):
        assert f">{name}</text>" in shown._picture.value, name
    assert shown._stop.disabled
    shown.close()


def test_the_forms_are_sorted_by_what_is_chosen() -> None:
    shown = pn.TargetDashboard(network(), DATA, targets=QUICK)
    shown.wait(120)
    shown._order.value = "size"
    places = [shown._picture.value.index(f">{name}</text>") for name in QUICK]
    assert min(places) == places[2]
    shown.close()


def building(shop: Workshop) -> Built:
    def run(*inputs: torch.Tensor) -> Any:
        with torch.no_grad():
            return shop.model(*inputs)

    return Built(run, 1)


def test_what_has_been_built_is_timed_when_the_building_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly(shop: Workshop) -> Built:
        begun.set()
        assert go_on.wait(60)
        return building(shop)

    forms = (("eager", building), ("second", slowly), ("third", lambda _: pytest.fail("it was built")))
    monkeypatch.setattr(compare, "FORMS", tuple(Form(name, "nothing", make) for name, make in forms))
    shown = pn.TargetDashboard(network(), DATA)
    assert begun.wait(60)
    assert shown.table is not None
    assert shown.table.recommendation == "Building second …"
    assert shown.table.rows["third"].missing == "It has not been built yet."
    assert "Building second …" in shown._said.value
    shown._stop.click()
    go_on.set()
    table = shown.wait(60)
    assert table.rows["second"].latency is not None
    assert table.rows["third"].missing == "It was stopped before this one was built."
    shown.close()


def test_what_goes_wrong_is_shown_and_raised() -> None:
    shown = pn.TargetDashboard(network(), torch.randn(64, 5), targets=QUICK)
    with pytest.raises(pn.ExportError, match="The model does not take the data"):
        shown.wait(60)
    assert "The model does not take the data" in shown._said.value
    assert "The model does not take the data" in repr(shown)
    shown.close()
    with pytest.raises(TypeError, match="unexpected keyword argument 'target'"):
        pn.TargetDashboard(network(), DATA, target=QUICK)


def test_waiting_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slowly(shop: Workshop) -> Built:
        assert go_on.wait(60)
        return building(shop)

    monkeypatch.setattr(compare, "FORMS", (Form("eager", "nothing", slowly),))
    shown = pn.TargetDashboard(network(), DATA)
    with pytest.raises(TimeoutError, match=r"It has not ended within 0\.01 seconds, and goes on"):
        shown.wait(0.01)
    go_on.set()
    assert shown.wait(60).best == "eager"
    shown.close()
