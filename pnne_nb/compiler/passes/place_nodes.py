"""Places nodes on devices: those that are named, or so that a model fits into the memory of several."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, final

import torch

from pnne_nb.compiler.analysis.example_inputs import call_inputs
from pnne_nb.compiler.analysis.memory_plan import OptimizerKind
from pnne_nb.compiler.lowering.device_placement import transfers
from pnne_nb.compiler.passes.equivalence import Promise
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite
from pnne_nb.compiler.passes.placement_plan import Placement, plan_placement
from pnne_nb.compiler.passes.report import Change, Gain
from pnne_nb.compiler.pipeline.compile import made, program_of
from pnne_nb.compiler.shapes.scope import available_devices
from pnne_nb.compiler.weights.memory_check import free_memory
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import PassError, expect
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.model.annex import OWN
from pnne_nb.graph.schema.structural import DEVICE
from pnne_nb.process.random_state import preserved_random_state


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


@final
class PlaceByMemory(Pass):
    """Chooses a device for each node, so that the model fits and the fewest bytes are moved between devices.

    Each device gets one stretch of the nodes in the order in which they run; of all such placements, and all orders of
    the devices, the one that moves least is taken. It counts weights and what is alive while a node runs, worked out on
    tensors without data, but not what kernels use inside for a moment. A nested graph stays whole.

    Args:
        memory: What each device has: ``{"cuda:0": "8 GB", "cpu": "16 GB"}``; None is what is free now on those of this
            machine. A device that it does not have, such as ``"meta"`` in the place of any other, can be planned for
            (`plan`), not placed on.
        training: Whether a training step must fit: with gradients, the optimizer's state and the outputs of all nodes.
        optimizer: The optimizer of the training, by its name in ``torch.optim`` or as a class; None counts no state.
    """

    promise = Promise(outputs=1e-4, gradients=1e-3)

    def __init__(
        self,
        memory: Mapping[str, int | str] | None = None,
        *,
        training: bool = False,
        optimizer: OptimizerKind = "AdamW",
    ) -> None:
        expect(training, bool, "training", "True or False")
        self._memory = free_memory() if memory is None else memory
        self._training = training
        self._optimizer = optimizer if training else None

    def plan(
        self, graph: NodeGraph, args: Any = None, kwargs: Mapping[str, Any] | None = None, *, reuse: Reuse = OWN
    ) -> Placement:
        """Return the placement alone, with what it moves and what each device needs; the document stays as it is.

        Args:
            graph: The document.
            args: Positional example inputs; from the shapes of the Input nodes if neither these nor `kwargs` are given.
            kwargs: Those by name.
            reuse: As in ``pn.compile``; the values do not matter.

        Raises:
            ArgumentError: If a limit is no amount of memory, or another argument of the wrong kind.
            CompileError: If the document cannot be compiled as it is, or has no shapes to make examples from.
            PassError: If the model does not fit; the message names the node.
        """
        expect_graph(graph)
        with preserved_random_state():
            model = made(graph, reuse, "look").model
        args, kwargs = call_inputs(graph, model, args, kwargs)
        return plan_placement(
            PassSubject(graph, model, args, kwargs), self._memory, training=self._training, optimizer=self._optimizer
        )

    def rewrite(self, subject: PassSubject) -> Rewrite:
        done = Rewrite()
        placement = plan_placement(subject, self._memory, training=self._training, optimizer=self._optimizer)
        nodes = subject.snapshots[""].nodes
        if len(placement.used) == 1 and torch.device(next(iter(placement.used))).type == "cpu":
            return done  # it fits where it is
        for name, device in placement.devices.items():
            if DEVICE in nodes[name].spec.properties:
                check_device(name, device)
                subject.graph.set(name, device=device)
        for device, used in placement.used.items():
            placed = tuple(name for name, where in placement.devices.items() if where == device)
            done.changes.append(
                Change("placed", placed, f"on {device}, which needs {used:,} bytes of {placement.limits[device]:,}")
            )
        done.changes += moved(subject)
        alone = plan_placement(subject, {"cpu": sys.maxsize}, training=self._training, optimizer=self._optimizer)
        done.gains.append(Gain("memory of the fullest device", alone.used["cpu"], max(placement.used.values()), "B"))
        return done
