"""`pn.check_export` says what `pn.export` then does."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import Tensor, nn

import pnne_nb as pn
from tests.export.kinds import KINDS, chained, linear


def register() -> None:
    @pn.register_node(category="Custom")
    class Fixing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[: int(x.shape[0])] if int(x.shape[0]) == 3 else x

    @pn.register_node(category="Custom")
    class Choosing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.mean() > 0 else -x


def graph(kind: str) -> pn.NodeGraph:
    register()
    match kind:
        case "fixed":
            return chained("fixed", ("N", 4), linear("fc", 4, 4), ("Fixing", "fix"))
        case "choosing":
            return chained("choosing", ("N", 4), ("Choosing", "choose"))
        case "untranslated":
            return chained("untranslated", ("N", 4, 4), ("ReLU", "relu"), ("matrix_exp", "exp"))
        case _:
            return KINDS[kind]()


@pytest.mark.parametrize(
    ("kind", "format", "codes"),
    [
        ("fixed", "onnx", {("size-fixed", "fix")}),
        ("choosing", "pt2", {("data-dependent", "choose")}),
        ("untranslated", "onnx", {("no-translation", "exp")}),
    ],
)
def test_check_and_export_agree(kind: str, format: str, codes: set[tuple[str, str]], tmp_path: Path) -> None:
    drawn = graph(kind)
    findings = pn.check_export(drawn, format)
    assert {(each.code, each.node) for each in findings if each.severity != "info"} == codes
    try:
        report = pn.export(drawn, tmp_path / f"net.{format}", format)
    except pn.ExportError as error:
        assert [(each.code, each.node) for each in error.diagnostics] == [(each.code, each.node) for each in findings]
    else:
        assert report.ok
        fixed = {node for size in report.sizes.values() if size.how == "fixed" for node in size.nodes}
        assert fixed == {node for code, node in codes if code == "size-fixed"}


def test_what_finds_places_is_written() -> None:
    # torch.onnx decomposes it, and torch refuses to decompose the same program once more for what the check tells.
    findings = pn.check_export(chained("places", ("N", 4), ("nonzero", "places")), "onnx")
    assert [(each.code, each.severity) for each in findings] == [("axis-fixed", "warning")]


def test_a_slow_format_is_only_traced() -> None:
    findings = pn.check_export(graph("fixed"), "aoti")
    assert [(each.code, each.node) for each in findings] == [("size-fixed", "fix"), ("axis-fixed", "x")]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(pn.ExportError, match="There is no format 'tflite'"):
        pn.check_export(KINDS["mlp"](), "tflite")
