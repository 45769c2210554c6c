"""Plots are drawn by what the package has installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import pnne_nb as pn
from pnne_nb.telemetry import plot_hook
from pnne_nb.telemetry.plot_hook import install_plots, installed_plots


class Words:
    def history(
        self,
        history: Any,
        names: tuple[str, ...],
        *,
        log: bool = False,
        beside: Sequence[Any] = (),
        labels: Sequence[str] = (),
    ) -> str:
        return " ".join(map(str, (history, names, log, *beside, *labels)))

    def live(self, monitor: Any) -> None:
        pass

    def tiles(self, tiles: Any, caption: str, *, signed: bool = False) -> str:
        return f"{tiles} {caption}"

    def layer(self, view: Any) -> str:
        return f"{view}"


def test_importing_the_package_installs_its_plots() -> None:
    assert type(installed_plots()).__module__ == pn.__name__


def test_what_is_installed_later_draws_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_hook, "_plots", None)
    install_plots(Words())
    assert installed_plots().history("losses", ("train_loss",)) == "losses ('train_loss',) False"


def test_without_plots_the_message_says_what_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_hook, "_plots", None)
    with pytest.raises(pn.PnneError, match=r"No plots are installed: import pnne_nb"):
        installed_plots()
