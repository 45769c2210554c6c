from __future__ import annotations

from pathlib import Path

import pytest

from pnne_nb.widgets.host import bundle


def test_the_built_front_end_is_found() -> None:
    assert "render" in bundle.bundled("controls.js")
    assert ".pnne-dashboard" in bundle.bundled("controls.css")


def test_a_checkout_without_a_front_end_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"not built: .*controls\.js is missing\. Run `npm ci"):
        bundle.bundled("controls.js")
