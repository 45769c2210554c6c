"""Places nodes on devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

import torch

from pnne_nb.compiler.lowering.device_placement import transfers
from pnne_nb.compiler.passes.equivalence import Promise
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite
from pnne_nb.compiler.passes.report import Change
from pnne_nb.compiler.pipeline.compile import program_of
from pnne_nb.compiler.shapes.available_devices import available_devices
from pnne_nb.errors import PassError, expect


@final
class PlaceNodes(Pass):
    """Sets the ``device`` of nodes, and reports the transfers that follow.

    A node without a device runs where its first input is, so name those nodes at which the device changes: the first
    of each stage. Devices compute with other rounding, so outputs and gradients are promised within a tolerance.
    Keep the model as it is placed: ``model.to(...)`` would move all of it.

    Args:
        devices: Where to put which nodes, by path: ``{"encoder": "cuda:0", "decoder": "cuda:1"}``.
    """

    promise = Promise(outputs=1e-4, gradients=1e-3)

    def __init__(self, devices: Mapping[str, str]) -> None:
        expect(devices, Mapping, "devices", "devices by the path of a node")
        for node, device in devices.items():
            expect(node, str, "devices", "devices by the path of a node")
            expect(device, str, "device", "the name of a device such as 'cpu' or 'cuda:0'")
        self._devices = dict(devices)

    def rewrite(self, subject: PassSubject) -> Rewrite:
        done = Rewrite()
        for node, device in self._devices.items():
            subject.graph.set(node, device=device)
            check_device(node, device)
            done.changes.append(Change("placed", (node,), device))
        done.changes += moved(subject)
        return done


def moved(subject: PassSubject) -> Iterator[Change]:
    """Yield the transfers of values between the devices of the subject's graph."""
    for transfer in transfers(program_of(subject.graph)):
        paths = subject.paths(transfer.definition, transfer.node)
        where = transfer.device or "where the inputs of the model are"
        yield Change("moved", tuple(f"{path}.{transfer.port}" for path in paths), f"to {where}")


def check_device(node: str, name: str) -> None:
    """Refuse a device that this machine does not have.

    Raises:
        PassError: If it is not there, or holds no data.
    """
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise PassError(f"{node} cannot be on 'meta': tensors there hold no data, so nothing could be computed.")
        torch.empty(0, device=device)
    except PassError:
        raise
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise PassError(
            f"{node} cannot be on {name!r}: this machine has {', '.join(available_devices())}. ({str(error).splitlines()[0]})"
        ) from error
