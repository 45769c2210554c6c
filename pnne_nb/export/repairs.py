"""Repairs for nodes that prevent an export, which the editor offers as one click."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from pnne_nb.errors import Diagnostic, ExportError, Fix, Retype
from pnne_nb.graph.document import NodeGraph

NEAREST: Final = {
    "AdaptiveMaxPool1d": "AdaptiveAvgPool1d",
    "AdaptiveMaxPool2d": "AdaptiveAvgPool2d",
    "adaptive_max_pool1d": "adaptive_avg_pool1d",
    "adaptive_max_pool2d": "adaptive_avg_pool2d",
    "FractionalMaxPool2d": "MaxPool2d",
    "FractionalMaxPool3d": "MaxPool3d",
    "fractional_max_pool2d": "max_pool2d",
    "fractional_max_pool3d": "max_pool3d",
    "RReLU": "LeakyReLU",
    "rrelu": "leaky_relu",
    "fmax": "maximum",
    "fmin": "minimum",
}
"""Types that torch.onnx does not translate, each with the nearest one that it does translate and that has the same ports.

Measured with torch 2.13 by drawing and translating every type of the catalogue.
"""

CAUSAL: Final = {"TransformerEncoder": "is_causal", "TransformerDecoder": "tgt_is_causal"}
"""Types that look into their mask to see whether it is causal, with the property that says so instead."""


PACKED: Final = (
    "torch.export traces no packed sequences: leave pack_padded_sequence out, and take the output at the last step of each "
    "sequence by gather; or keep the model as it is in a package: pn.save."
)
"""What to do where sequences are packed: torch fails in the recurrent layer behind it."""


@contextmanager
def with_repairs(graph: NodeGraph | None) -> Iterator[None]:
    """Add known repairs to the diagnostics of an error in this block.

    Raises:
        ExportError: What was raised inside.
    """
    try:
        yield
    except ExportError as error:
        if graph is None:
            raise
        message = error.message
        repaired = []
        for finding in error.diagnostics:
            found = repair(finding, graph)
            if finding.hint and found.hint and finding.hint in message:
                message = message.replace(finding.hint, found.hint)
            repaired.append(found)
        raise ExportError(message, repaired) from error


def repair(finding: Diagnostic, graph: NodeGraph) -> Diagnostic:
    """Return a finding of an export with its repair, if one is known."""
    if finding.node is None or finding.node not in graph:
        return finding
    node = graph[finding.node]
    if finding.code == "no-translation" and node.type in NEAREST:
        other = NEAREST[node.type]
        hint = f"A {other} in its place has a form there, and computes something similar; or export as 'pt2'."
        return msgspec.structs.replace(
            finding, hint=hint, fix=Retype(finding.node, other, f"Change {finding.node} to {other}")
        )
    packs = any(each.type.endswith("pack_padded_sequence") for each in graph.nodes.values())
    if finding.code == "not-traceable" and packs:
        return msgspec.structs.replace(finding, hint=PACKED)
    if finding.code == "data-dependent" and node.type in CAUSAL and node.properties.get(CAUSAL[node.type]) is None:
        name = CAUSAL[node.type]
        hint = f"Set its property {name} to False: it then uses the mask as it is, without looking into it."
        return msgspec.structs.replace(
            finding, hint=hint, fix=Fix(finding.node, name, False, f"Set {name} of {finding.node} to False")
        )
    return finding
