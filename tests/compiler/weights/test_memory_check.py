"""The check that weights fit, and the limits of containers, read from files as Linux writes them."""

from __future__ import annotations

from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest
import torch

import pnne_nb as pn
from pnne_nb.compiler.weights import memory_check
from pnne_nb.compiler.weights.memory_check import Memory, memory
from tests.compiler.graphs import lenet, wire

MILLION = 10**6


def wide(device: str | None = None) -> pn.NodeGraph:
    """A graph whose weights no machine holds."""
    graph = pn.NodeGraph("wide")
    graph.add("Input", "x", shape=("N", MILLION))
    graph.add("Linear", "small", in_features=MILLION, out_features=8)
    graph.add("Linear", "huge", in_features=MILLION, out_features=MILLION, device=device)
    graph.add("Output", "y")
    graph.add("Output", "z")
    return wire(graph, "x small z", "x huge y")


def test_what_does_not_fit_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "memory", lambda: Memory(3 * 2**30, 3 * 2**30))
    with pytest.raises(
        pn.CompileError,
        match=r"huge: Its weights take 3\.6 TiB, those of the whole model 3\.6 TiB, and 3\.0 GiB of memory are free"
        r"\. Make it smaller, or compile it without data: .* with torch\.device\('meta'\)",
    ) as caught:
        pn.compile(wide())
    assert [(found.code, found.node) for found in caught.value.diagnostics] == [("too-large", "huge")]


def test_a_node_inside_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "memory", lambda: Memory(2**20, 2**20))
    graph = wide()
    graph.group(["huge"], "block")
    with pytest.raises(pn.CompileError, match=r"^block\.huge: Its weights"):
        pn.compile(graph)


def test_every_use_of_a_definition_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = pn.NodeGraph("twice")
    graph.add("Input", "x", shape=("N", 1024))
    graph.add("Linear", "fc", in_features=1024, out_features=1024, bias=False)
    graph.add("Output", "y")
    wire(graph, "x fc y")
    inner = graph.group(["fc"], "one")
    graph.add("Subgraph", "two", definition=inner.definition)
    wire(graph, "x two")
    graph.add("Output", "z")
    wire(graph, "two z")
    monkeypatch.setattr(memory_check, "HARMLESS", 0)
    monkeypatch.setattr(memory_check, "memory", lambda: Memory(9 * 2**20, 9 * 2**20))
    assert pn.compile(graph)(torch.ones(1, 1024))[1].shape == (1, 1024)
    monkeypatch.setattr(memory_check, "memory", lambda: Memory(7 * 2**20, 7 * 2**20))
    with pytest.raises(pn.CompileError, match=r"one\.fc: Its weights take 4\.0 MiB, those of the whole model 8\.0 MiB"):
        pn.compile(graph)


class Tied(torch.nn.Module):
    """Has one weight, which two layers use."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(1024, 1024, bias=False)
        self.last = torch.nn.Linear(1024, 1024, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.last(self.first(x))
        return out


def test_a_tied_weight_counts_twice_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = pn.from_module(Tied(), (torch.ones(1, 1024),))
    monkeypatch.setattr(memory_check, "HARMLESS", 0)
    monkeypatch.setattr(memory_check, "memory", lambda: Memory(7 * 2**20, 7 * 2**20))
    with pytest.raises(pn.CompileError, match=r"first: Its weights take 4\.0 MiB, those of the whole model 8\.0 MiB"):
        pn.compile(graph, reuse=None)
    monkeypatch.setattr(memory_check, "memory", lambda: Memory(9 * 2**20, 9 * 2**20))
    assert sum(weight.numel() for weight in pn.compile(graph, reuse=None).parameters()) == 1024**2


def test_what_takes_no_memory_is_let_through() -> None:
    with torch.device("meta"):
        model = pn.compile(wide())
    assert model.get_parameter("huge.weight").shape == (MILLION, MILLION)
    assert pn.compile(wide("meta")).get_parameter("huge.weight").device.type == "meta"


def test_small_models_are_not_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "memory", lambda: pytest.fail("nobody needs to ask"))
    pn.compile(lenet())


MIB = 2**20
MACHINE = psutil.virtual_memory().total


def group(place: Path, version: int, limit: str, used: int, cache: int) -> None:
    place.mkdir(parents=True, exist_ok=True)
    names = {
        1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        2: ("memory.max", "memory.current", "inactive_file"),
    }[version]
    (place / names[0]).write_text(f"{limit}\n")
    (place / names[1]).write_text(f"{used}\n")
    (place / "memory.stat").write_text(f"anon 1\nfile {cache + 5}\n{names[2]} {cache}\n")


def own(place: Path, *lines: str) -> Path:
    file = place / "own"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


@pytest.mark.parametrize(("version", "line"), [(2, "0::/"), (1, "4:cpu,memory:/docker/0123")])
def test_a_container_has_what_its_limit_leaves(tmp_path: Path, version: int, line: str) -> None:
    group(tmp_path / ("memory" if version == 1 else "."), version, str(8 * MIB), used=5 * MIB, cache=2 * MIB)
    assert memory(tmp_path, own(tmp_path, "3:cpuset:/", line)) == (8 * MIB, 5 * MIB)


def test_the_narrowest_of_the_groups_around_a_process_counts(tmp_path: Path) -> None:
    group(tmp_path / "user", 2, str(6 * MIB), used=5 * MIB, cache=0)
    group(tmp_path / "user/job", 2, str(4 * MIB), used=MIB, cache=0)
    assert memory(tmp_path, own(tmp_path, "0::/user/job")) == (4 * MIB, MIB)


def test_more_than_the_limit_taken_leaves_nothing(tmp_path: Path) -> None:
    group(tmp_path, 2, str(MIB), used=2 * MIB, cache=0)
    assert memory(tmp_path, own(tmp_path, "0::/")) == (MIB, 0)


@pytest.mark.parametrize("limit", ["max", str(2**63 - 4096), "what"])
def test_without_a_limit_it_is_the_machine_s(tmp_path: Path, limit: str) -> None:
    group(tmp_path, 2, limit, used=MIB, cache=0)
    found = memory(tmp_path, own(tmp_path, "0::/"))
    assert found.total == MACHINE
    assert 0 < found.free <= MACHINE


def test_where_there_are_no_groups_it_is_the_machine_s(tmp_path: Path) -> None:
    assert memory(tmp_path, tmp_path / "none").total == MACHINE
    assert memory(tmp_path, own(tmp_path, "0::/gone")).total == MACHINE
