"""What a click can do about a node that keeps a model from being exported."""

from __future__ import annotations

import msgspec
import pytest

import pnne_nb as pn
from pnne_nb.errors import Diagnostic, ExportError, Fix, Retype
from pnne_nb.export.attempt import CAUSAL, NEAREST, repair, with_repairs
from pnne_nb.graph.schema.registry import registry
from tests.export.kinds import chained


def pooled() -> pn.NodeGraph:
    return chained("pooled", ("N", 4, 8, 8), ("FractionalMaxPool2d", "pool", {"kernel_size": 2, "output_size": 3}))


def test_a_node_without_translation_can_become_the_nearest_one() -> None:
    (found,) = pn.check_export(pooled(), "onnx")
    assert found.code == "no-translation"
    assert found.fix == Retype("pool", "MaxPool2d", "Change pool to MaxPool2d")
    assert "A MaxPool2d in its place has a form there" in str(found)
    sent = msgspec.json.decode(msgspec.json.encode(found), type=Diagnostic)
    assert sent == found


@pytest.mark.parametrize("type", NEAREST)
def test_the_nearest_type_has_the_same_inputs(type: str) -> None:
    ours, other = registry[type], registry[NEAREST[type]]
    assert [port.name for port in ours.inputs] == [port.name for port in other.inputs]
    assert ours.kind == other.kind
    assert other.type not in NEAREST


def test_a_transformer_that_looks_into_its_mask_can_be_told_not_to() -> None:
    graph = pn.NodeGraph("net")
    graph.add("TransformerEncoder", "encoder", d_model=4, nhead=2, num_layers=1)
    finding = Diagnostic("data-dependent", "It depends on the values of a tensor.", "encoder", hint="Choose.")
    assert repair(finding, graph).fix == Fix("encoder", "is_causal", False, "Set is_causal of encoder to False")
    for type, name in CAUSAL.items():
        assert name in {prop.name for prop in registry[type].properties}
    graph.set("encoder", is_causal=True)
    assert repair(finding, graph) == finding


def test_the_message_says_what_the_finding_says() -> None:
    finding = Diagnostic("no-translation", "There is none.", "pool", hint="Draw it otherwise.")
    with (
        pytest.raises(ExportError, match="A MaxPool2d in its place has a form there") as caught,
        with_repairs(pooled()),
    ):
        raise ExportError(f"No form: {finding}", [finding])
    assert caught.value.diagnostics[0].fix is not None
    with pytest.raises(ExportError, match="Draw it otherwise"), with_repairs(None):
        raise ExportError(f"No form: {finding}", [finding])
