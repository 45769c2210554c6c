"""Which devices this machine has, and what to say of one that it has not."""

from __future__ import annotations

import torch

from pnne_nb.compiler.mismatch import Finding
from pnne_nb.errors import Severity

_EVERYWHERE = frozenset({"cpu", "meta"})


def available_devices() -> list[str]:
    """Names of the devices that there are to compute on, the CPU first."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return ["cpu"]
    return ["cpu", *(f"{accelerator.type}:{index}" for index in range(torch.accelerator.device_count()))]


def missing_device(name: str, severity: Severity = "warning") -> Finding | None:
    """What there is to say of a node that is placed on a device, if this machine has none of that name.

    Args:
        name: The device.
        severity: A warning in a document, which may be meant for another machine; an error when it is compiled here.
    """
    device = torch.device(name)
    known = available_devices()
    if device.type in _EVERYWHERE or f"{device.type}:{device.index or 0}" in known:
        return None
    return Finding(
        "device-missing",
        f"It is placed on {name}, which this machine does not have; there is {', '.join(known)}.",
        hint="Choose one of these, or None for where its input is; or compile it on a machine that has it.",
        severity=severity,
        property="device",
        value=known[1] if len(known) > 1 else None,
    )
