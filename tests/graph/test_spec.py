"""Which kinds of ports fit, as the browser is told too."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import get_args

from pnne_nb.graph.spec import PortKind, kinds_fit

CASES = Path(__file__).parents[1] / "cases" / "kinds.json"


def test_kinds_fit_as_the_shared_case_says() -> None:
    fits = {(source, target) for source, target in json.loads(CASES.read_text(encoding="utf-8"))["fits"]}
    kinds = get_args(PortKind)
    assert {pair for pair in itertools.product(kinds, kinds) if kinds_fit(*pair)} == fits
