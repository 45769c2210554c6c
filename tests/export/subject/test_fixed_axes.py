"""Every axis of an input at which a file takes one size only is told, before the export and after it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.export.formats.base import FixedAxis
from tests.export.kinds import chained, linear


class Decoder(nn.Module):
    """A small GPT without a size of its own: it takes any length up to 64."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(20, 8)
        self.place = nn.Embedding(64, 8)
        self.head = nn.Linear(8, 20)

    def forward(self, ids: Tensor) -> Tensor:
        h = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        result: Tensor = self.head(nn.functional.scaled_dot_product_attention(h, h, h, is_causal=True))
        return result


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        result: Tensor = self.fc(x) * mask.unsqueeze(-1)
        return result


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.lstm(x)[0]
        return result


def test_a_length_that_stays_that_of_the_example_is_told_before_and_after(tmp_path: Path) -> None:
    data = torch.randint(0, 20, (3, 12))
    net = Decoder().eval()
    graph = pn.from_module(net, args=(data,))
    told = [each for each in pn.check_export(graph, "pt2", data=data) if each.code == "axis-fixed"]
    assert [(each.node, each.severity) for each in told] == [("ids", "warning")]
    assert told[0].message.startswith(
        "The file takes ids.shape[1] = 12 only. The model takes other sizes at ids.shape[1]."
    )
    assert "sizes={'ids': ('N', 'S')}" in (told[0].hint or "")
    report = pn.export(graph, tmp_path / "net.pt2", data=data)
    assert report.fixed == (FixedAxis("ids", 1, 12, "S"),)
    assert "fixed: ids.shape[1] = 12" in repr(report)
    assert "Name a size to leave it free: sizes={'ids': ('N', 'S')}." in repr(report)
    assert report.findings[: len(told)] == tuple(told)


def test_the_line_that_is_told_leaves_the_length_free(tmp_path: Path) -> None:
    net = Decoder().eval()
    graph = pn.from_module(net, args=(torch.randint(0, 20, (3, 12)),))
    report = pn.export(graph, tmp_path / "net.pt2", sizes={"ids": ("N", "S")})
    assert report.fixed == ()
    assert report.sizes["S"].how == "named"
    assert not any(each.code == "axis-fixed" for each in report.findings)


def test_axes_that_the_weights_fix_are_told_without_a_warning(tmp_path: Path) -> None:
    graph = chained("mlp", (4, 8), linear("fc", 8, 3))
    report = pn.export(graph, tmp_path / "net.pt2")
    assert report.fixed == (FixedAxis("x", 0, 4, "N"), FixedAxis("x", 1, 8))
    (narrow,) = [each for each in report.findings if each.code == "axis-fixed"]
    assert narrow.hint == "Name a size to leave it free: sizes={'x': ('N', 8)}."
    closed = pn.check_export(chained("mlp", ("N", 8), linear("fc", 8, 3)), "pt2")
    assert [(each.code, each.severity, each.message) for each in closed] == [
        ("axis-fixed", "info", "The file takes x.shape[1] = 8 only.")
    ]


def test_axes_that_change_together_get_one_name(tmp_path: Path) -> None:
    data = {"x": torch.randn(3, 7, 5), "mask": torch.ones(3, 7)}
    report = pn.export(Masked().eval(), tmp_path / "net.pt2", data=data)
    assert {(each.input, each.axis): each.name for each in report.fixed} == {
        ("x", 1): "S",
        ("x", 2): "",
        ("mask", 1): "S",
    }
    assert "sizes={'x': ('N', 'S', 5), 'mask': ('N', 'S')}" in repr(report)


def test_a_number_that_the_caller_chose_is_no_warning(tmp_path: Path) -> None:
    graph = chained("relu", ("N", "T"), ("ReLU", "act"))
    report = pn.export(graph, tmp_path / "net.pt2", sizes={"T": 9})
    assert report.fixed == (FixedAxis("x", 1, 9),)
    assert [each.severity for each in report.findings] == ["info"]


@pytest.mark.parametrize("suffix", ["onnx", "safetensors", "pt", "torchscript"])
def test_each_format_tells_them(suffix: str, tmp_path: Path) -> None:
    report = pn.export(chained("relu", ("N", 6), ("ReLU", "act")), tmp_path / f"net.{suffix}")
    assert report.fixed == (FixedAxis("x", 1, 6, "S"),)


@pytest.mark.parametrize("format", ["executorch", "aoti"])
def test_a_runtime_that_checks_no_size_is_told_before(format: str) -> None:
    (found,) = pn.check_export(Recurrent().eval(), format, data=torch.randn(2, 12, 4))
    assert "x.shape[1] = 12, x.shape[2] = 4" in found.message
    assert "gives wrong numbers at other sizes, and does not refuse them" in found.message


def test_a_runtime_that_checks_no_size_is_told_after(tmp_path: Path) -> None:
    report = pn.export(Recurrent().eval(), tmp_path / "net.pte", data=torch.randn(2, 12, 4))
    assert report.fixed == (FixedAxis("x", 1, 12, "S"), FixedAxis("x", 2, 4))
    assert "gives wrong numbers at other sizes, and does not refuse them" in repr(report)


def test_the_card_of_a_package_tells_them(tmp_path: Path) -> None:
    graph = chained("relu", ("N", 6), ("ReLU", "act"))
    pn.save(graph, pn.compile(graph), tmp_path / "net")
    assert "Fixed sizes: x.shape\\[1\\] = 6." in (tmp_path / "net" / "README.md").read_text()


def test_quantising_tells_them() -> None:
    graph = chained("mlp", ("N", 8), linear("fc", 8, 3))
    data = torch.randn(64, 8), torch.randint(0, 3, (64,))
    assert "It was calibrated and measured at these sizes only: x.shape[1] = 8." in repr(pn.quantize(graph, data))
