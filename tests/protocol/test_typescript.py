"""The TypeScript types are those of the messages."""

from __future__ import annotations

import re

import msgspec
import pytest
from msgspec import inspect

from pnne_nb.graph.model import origin
from pnne_nb.protocol import typescript


def test_the_generated_types_are_current() -> None:
    current = typescript.TARGET.read_text(encoding="utf-8")
    assert current == typescript.generate(), f"js/src/protocol.ts is stale; run: {typescript.COMMAND}"


def test_every_kind_of_field_is_written() -> None:
    text = typescript.generate()
    for line in (
        '  readonly op: "addNode";',
        "  readonly properties?: Readonly<Record<string, Json>>;",
        "  readonly position?: readonly [number, number] | null;",
        "  readonly newName: string;",
        "  readonly ops: readonly Op[];",
        "  readonly shape: readonly (number | string)[];",
        "  readonly item: PropertyType;",
        "  readonly kind?: PortKind;",
        "  readonly fix: Fix | Retype | null;",
        "  readonly origin?: Origin | null;",
        "  readonly updates: readonly Update[];",
        'export const KEYWORDS = "*";',
        "export const MAX_TITLE = 200;",
    ):
        assert line in text


def test_both_sides_agree_on_patterns() -> None:
    """Patterns that are sent mean the same in JavaScript: no class that Python reads more widely."""
    for line in typescript.generate().splitlines():
        if line.startswith("export const") and "= /" in line:
            assert not re.search(r"\\[dwsbDWSBAZ]|\(\?[^:]", line), line


def test_two_classes_of_one_name_are_refused() -> None:
    class Origin(msgspec.Struct):
        field: int

    structs = {"Origin": inspect.type_info(origin.Origin)}
    with pytest.raises(TypeError, match="Two classes of the wire are called Origin"):
        typescript._collect(inspect.type_info(Origin), structs)  # type: ignore[arg-type]  # a struct's info is one


def test_a_type_without_a_form_is_refused() -> None:
    class Odd(msgspec.Struct):
        field: bytes

    with pytest.raises(TypeError, match="has no TypeScript form"):
        typescript._interface(inspect.type_info(Odd))  # type: ignore[arg-type]  # a struct's info is a StructType
