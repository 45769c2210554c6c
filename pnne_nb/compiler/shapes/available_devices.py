"""Lists the devices of this machine, and reports nodes that are placed on another."""

from __future__ import annotations

import torch

from pnne_nb.compiler.shapes.mismatch import NodeFinding
from pnne_nb.errors import Severity

_EVERYWHERE = frozenset({"cpu", "meta"})


def available_devices() -> list[str]:
    """Return the names of the devices of this machine, the CPU first."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return ["cpu"]
    return ["cpu", *(f"{accelerator.type}:{index}" for index in range(torch.accelerator.device_count()))]


def missing_device(name: str, severity: Severity = "warning") -> NodeFinding | None:
    """Return the finding for a node on a device that this machine lacks, or None.

    It is a warning in a document, which may be meant for another machine, and an error when that is compiled here.
    """
    device = torch.device(name)
    known = available_devices()
    if device.type in _EVERYWHERE or f"{device.type}:{device.index or 0}" in known:
        return None
    return NodeFinding(
        "device-missing",
        f"It is placed on {name}, which this machine does not have; there is {', '.join(known)}.",
        hint="Choose one of these, or None for where its input is; or compile it on a machine that has it.",
        severity=severity,
        property="device",
        value=known[1] if len(known) > 1 else None,
    )
