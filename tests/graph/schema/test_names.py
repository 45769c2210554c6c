"""Names: the frozen list of reserved ones against torch's, and the names that new nodes get."""

from __future__ import annotations

import json
import keyword
from pathlib import Path

import pytest
import torch

from pnne_nb.errors import IllegalNameError
from pnne_nb.graph.schema.names import RESERVED, check_name, free_name, numbered, stem_of

CASES = json.loads((Path(__file__).parents[2] / "cases" / "names.json").read_text(encoding="utf-8"))
"""Replayed by vitest on the browser's code."""


def test_no_attribute_of_a_module_is_a_legal_name() -> None:
    taken = {*dir(torch.nn.Module()), *keyword.kwlist, "self", "torch", "nn", "F"}
    missing = {name for name in taken if not name.startswith("__")} - RESERVED
    assert not missing, f"add {sorted(missing)} to MODULE_ATTRIBUTES"
    for name in taken:
        with pytest.raises(IllegalNameError, match="cannot be named"):
            check_name(name)


@pytest.mark.parametrize("name", [*CASES["legal"], "x" * 100])
def test_legal_names(name: str) -> None:
    assert check_name(name) == name
    torch.nn.Module().add_module(name, torch.nn.Identity())


@pytest.mark.parametrize("name", CASES["illegal"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(IllegalNameError, match=r"is not a legal name: use letters|A node cannot be named"):
        check_name(name)


@pytest.mark.parametrize("name", [None, 3, "x" * 101])
def test_what_is_no_name_at_all(name: object) -> None:
    with pytest.raises(IllegalNameError, match=r"is not a legal name: use letters|is longer than 100 characters"):
        check_name(name)


@pytest.mark.parametrize(("type", "first"), CASES["first"])
def test_the_first_node_of_a_type(type: str, first: str) -> None:
    assert check_name(numbered(stem_of(type), ())) == first


@pytest.mark.parametrize(("name", "taken", "free"), CASES["free"])
def test_free_names(name: str, taken: list[str], free: str) -> None:
    assert check_name(free_name(name, taken)) == free


def test_free_names_from_a_number_on() -> None:
    assert free_name("block", {"block", "block3"}, first=3) == "block4"
    assert free_name("block", {"a"}, first=3) == "block"
