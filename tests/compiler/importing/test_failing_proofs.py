"""A proof that fails closes what it was about: an import never raises because of it, and the number of proofs is bounded."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.importing import importer
from pnne_nb.compiler.importing.verification import proof
from pnne_nb.compiler.importing.verification.batch_resize import unlike
from pnne_nb.compiler.importing.verification.bisect import ImportFault

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.fc(x))


def net(blocks: int = 2) -> nn.Module:
    return nn.Sequential(*(Block() for _ in range(blocks)))


STAGES = (
    "parameter_bytes",
    "has_large_products",
    "private_random_state",
    "key_prefix",
    "find_fault",
    "unlike",
    "converted",
    "tried",
)
"""What the comparison of an import with its module calls, in this order."""


@pytest.mark.parametrize("stage", STAGES)
def test_a_failure_at_any_stage_of_the_proof_keeps_the_module_closed(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = net()

    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{stage} is broken")

    monkeypatch.setattr(proof, stage, failing)
    graph = pn.from_module(module, X)
    assert graph.import_report.open == 0
    (row,) = graph.import_report.rows
    assert row.state == "closed"
    assert f"comparing it with what is drawn fails: {stage} is broken" in row.reason
    monkeypatch.undo()
    assert torch.equal(pn.compile(graph, reuse=module)(X), module(X))


def test_an_error_that_names_a_node_closes_that_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    module = net()

    def failing(graph: pn.NodeGraph, *args: Any, **kwargs: Any) -> Any:
        if graph["1"].type == "Subgraph":
            raise pn.ExecutionError("no", [pn.Diagnostic(code="run-failed", message="no", node="1.fc")])
        return unlike(graph, *args, **kwargs)

    monkeypatch.setattr(proof, "unlike", failing)
    graph = pn.from_module(module, X)
    assert graph["0"].type == "Subgraph"
    assert graph["1"].origin is not None
    assert "comparing it with what is drawn fails: no" in graph["1"].origin.reason


def test_the_number_of_proofs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part in turn differs: the innermost ones are closed first, then whole blocks, then all of it."""
    monkeypatch.setattr(importer, "MANY", 3)
    module = nn.Sequential(*(net(4) for _ in range(6)))
    paths = iter([path for path, each in module.named_modules() if isinstance(each, Block)])
    proofs = 0

    def differing(graph: pn.NodeGraph, *_: Any, **__: Any) -> Generator[None, None, ImportFault | None]:
        nonlocal proofs
        proofs += 1
        yield
        return ImportFault(next(paths), "it differs") if graph.import_report.open else None

    monkeypatch.setattr(proof, "find_fault", differing)
    graph = pn.from_module(module, X)
    assert proofs <= 2 * importer.MANY + 2
    assert graph.import_report.open == 0
