"""Places submodules on devices and moves values between them, from the nodes' ``device`` property.

A node with a device runs there. A node without one runs where its first input is, so that it is enough to name the
device where it changes. A value that is needed elsewhere is moved once per device, right after it is made.
Arguments of the model are wherever the caller has them; parameters and buffers of the graph itself lie there too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

import msgspec

from pnne_nb.compiler.ir.program import (
    Argument,
    Attribute,
    Call,
    Constant,
    Nested,
    Program,
    Ref,
    Unit,
    Weight,
    ports_in,
    references,
)
from pnne_nb.compiler.ir.program import Sequence as Arguments
from pnne_nb.compiler.ir.snapshot import GraphSnapshot, paths_of
from pnne_nb.compiler.lowering.attributes import member_paths
from pnne_nb.compiler.shapes.infer import failure, infer
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.structural import DEVICE

HOME = ""
"""Where the arguments of the model are."""

NOWHERE = "-"
"""The place of numbers and sizes, which are needed everywhere."""

_SIZES = frozenset({"getattr", "size", "dim", "ndimension", "numel", "nelement", "stride", "len"})
"""Targets of calls that read numbers off a tensor."""

_AT = "@"
"""Stands between the port and the device of a moved value; no port has it in its name."""

_DEVICE = f"device{_AT}"


class Transfer(msgspec.Struct, frozen=True):
    """A transfer of a value to a device.

    Attributes:
        definition: The graph that holds the nodes.
        node: Whose output is moved.
        port: Which output.
        device: Where to.
    """

    definition: str
    node: str
    port: str
    device: str


def place(unit: Unit, snapshots: Mapping[str, GraphSnapshot], graph: NodeGraph) -> Unit:
    """Return `unit` with submodules on their devices, and with transfers of values between devices.

    Raises:
        CompileError: If a value that is no tensor would have to be moved, or a nested graph with devices of its own
            is itself to be placed; ``diagnostics`` lists every node.
    """
    wanted = {id: _devices(snapshot) for id, snapshot in snapshots.items()}
    if not any(wanted.values()):
        return unit
    placing = _Placing(paths_of(snapshots), wanted, _tensors(graph))
    programs = {id: placing.program(program) for id, program in unit.programs.items()}
    placed = msgspec.structs.replace(unit, programs=programs)
    if wrong := [*placing.diagnostics, *_torn(placed)]:
        raise failure(unit.name, wrong)
    return placed


def transfers(unit: Unit) -> Iterator[Transfer]:
    """Yield every transfer that `place` has added."""
    for program in unit.programs.values():
        for call in program.calls:
            port, at, device = str(call.results[0]).partition(_AT)
            if at and call.target == "to":
                yield Transfer(program.definition, call.node, port, device)


def _devices(snapshot: GraphSnapshot) -> dict[str, str]:
    """Return which submodules have a device, by the attribute that holds them."""
    if DEVICE.name not in snapshot.property_names:
        return {}
    found = {}
    for name, node in snapshot.nodes.items():
        device = node.properties.get(DEVICE.name)
        if isinstance(device, str) and DEVICE in node.spec.properties:
            found[name] = device
    paths = member_paths(snapshot) if found else {}
    return {paths[name]: device for name, device in found.items()}


def _tensors(graph: NodeGraph) -> set[tuple[str, str, str]]:
    """Return the outputs that are known to be tensors, by definition, node and port."""
    found = set()
    for path in infer(graph).tensors:
        owner, _, port = path.rpartition(".")
        prefix, _, name = owner.rpartition(".")
        definition = graph[prefix].definition if prefix else ""
        found.add((definition or "", name, port))
    return found


def _torn(unit: Unit) -> Iterator[Diagnostic]:
    """Yield what is wrong where two names of one tensor are on different devices."""
    for paths in unit.programs[""].ties:
        owners = [path.rpartition(".")[0] for path in paths]
        one, other = ((_device_of(owner, unit.devices) or "the device of the inputs") for owner in owners)
        if one != other:
            yield Diagnostic(
                code="device-tied",
                message=f"{paths[0]} and {paths[1]} are one tensor, and would be on {one} and on {other}.",
                node=owners[0] or None,
                hint=f"Set the device of {owners[0] or 'the one'} and of {owners[1] or 'the other'} to the same.",
            )


def _device_of(path: str, devices: Mapping[str, str]) -> str:
    while path and path not in devices:
        path = path.rpartition(".")[0]
    return devices.get(path, HOME)


@final
class _Placing:
    def __init__(
        self,
        paths: Mapping[str, list[str]],
        wanted: Mapping[str, Mapping[str, str]],
        tensors: set[tuple[str, str, str]],
    ) -> None:
        self._paths = paths
        self._wanted = wanted
        self._tensors = tensors
        self._own: dict[str, bool] = {}  # definition -> whether anything in it has a device
        self._results: dict[str, tuple[str, ...]] = {}  # definition -> where its results are
        self.diagnostics: list[Diagnostic] = []

    def program(self, program: Program) -> Program:
        self._own[program.definition] = bool(self._wanted[program.definition]) or any(
            isinstance(member, Nested) and self._own[member.definition] for member in program.members
        )
        self._id = program.definition
        self._members = {member.name: member for member in program.members}
        self._lies: dict[str, str] = dict(self._wanted[program.definition])  # where each member is
        self._places: dict[Ref, str] = {}
        self._home: Ref | None = None  # the last tensor on the device of the arguments: the likeliest to be in use
        for entry in program.entries:
            self._settle(Ref(entry.node, "output"), HOME)
        self._calls: list[Call] = []
        self._made: set[Ref] = set()
        self._devices: dict[Ref, str] = {}  # where the tensors are whose devices the author's own code asked for
        for call in program.calls:
            self._call(call)
        self._results[program.definition] = tuple(
            self._places.get(result.value, HOME) if isinstance(result.value, Ref) else HOME
            for result in program.results
        )
        return msgspec.structs.replace(program, members=tuple(self._members.values()), calls=tuple(self._calls))

    def _call(self, call: Call) -> None:
        bound = [ref for ref in references(call) if self._places[ref] != NOWHERE]
        first = next((ref for ref in bound if self._is_tensor(ref)), bound[0] if bound else None)
        here = self._places[first] if first is not None else HOME
        outputs: tuple[str, ...] = ()
        if call.kind == "member":
            here = self._lies.setdefault(call.target, here)
            outputs = self._put(call, here)
        self._calls.append(self._brought(call, here))
        there = here if call.kind == "member" else self._asked_for(call, here)
        for index, port in enumerate(ports_in(call.results)):
            ref = Ref(call.node, port)
            free = not self._is_tensor(ref) and (call.target in _SIZES or (call.kind != "member" and not bound))
            self._settle(ref, NOWHERE if free else outputs[index] if outputs else there)
            if free and call.target == "getattr" and call.arguments[1:] == (Constant("device"),):
                self._devices[ref] = here

    def _asked_for(self, call: Call, here: str) -> str:
        """Return the device in the arguments of a function, or `here`."""
        for name, value in (*(("", each) for each in call.arguments), *call.keywords):
            if isinstance(value, Ref) and value in self._devices:
                return self._devices[value]
            if name == "device" and isinstance(value, Constant) and isinstance(value.value, str):
                return value.value
        return here

    def _settle(self, ref: Ref, place: str) -> None:
        self._places[ref] = place
        if place == HOME and self._is_tensor(ref):
            self._home = ref

    def _put(self, call: Call, here: str) -> tuple[str, ...]:
        """Put the member that is called on its device; return where its results are, if not all of them there."""
        member = self._members[call.target]
        assert not isinstance(member, Weight), "a weight is not called"
        if isinstance(member, Nested) and self._own[member.definition]:
            if here != HOME:
                self._refuse(
                    call,
                    "device-inside",
                    f"It would run on {here}, and nodes inside it have devices of their own.",
                    "Set the device of every node inside, or of this one alone.",
                )
            return self._results[member.definition]
        if here != HOME:
            self._members[call.target] = msgspec.structs.replace(member, device=here)
        return ()

    def _brought(self, call: Call, here: str) -> Call:
        """Return a call whose arguments are where it runs, after adding what moves them."""

        def bring(argument: Argument) -> Argument:
            match argument:
                case Ref() if self._places[argument] not in (here, NOWHERE):
                    return self._moved(call, argument, argument, here)
                case Attribute(name) if here != HOME:
                    return self._moved(call, argument, Ref(name.partition(".")[0], "output"), here)
                case Arguments(items):
                    return Arguments(tuple(map(bring, items)))
            return argument

        arguments = tuple(map(bring, call.arguments))
        keywords = tuple((name, bring(value)) for name, value in call.keywords)
        return msgspec.structs.replace(call, arguments=arguments, keywords=keywords)

    def _moved(self, call: Call, value: Ref | Attribute, source: Ref, here: str) -> Argument:
        if isinstance(value, Ref) and not self._is_tensor(value):
            self._refuse(
                call,
                "device-not-a-tensor",
                f"The result of {value.node} is on {self._places[value] or 'the device of the inputs'} and is "
                f"needed on {here or 'that device'}, but only tensors can be moved.",
                f"Place the inputs of {value.node} on the device of this node.",
            )
            return value
        target: Argument = Constant(here)
        if here == HOME:
            # Where the arguments are is known only when they come. The last tensor there is the likeliest to be in use.
            there = [ref for ref, place in self._places.items() if place == HOME and self._is_tensor(ref)]
            assert there, "something was on the device of the arguments: a tensor, or a module that took one"
            target = self._added(
                Call(there[-1].node, "function", "getattr", (there[-1], Constant("device")), (), (_DEVICE,))
            )
        return self._added(Call(source.node, "method", "to", (value, target), (), (f"{source.port}{_AT}{here}",)))

    def _added(self, call: Call) -> Ref:
        ref = Ref(call.node, str(call.results[0]))
        if ref not in self._made:
            self._made.add(ref)
            self._calls.append(call)
        return ref

    def _refuse(self, call: Call, code: str, message: str, hint: str) -> None:
        path = f"{self._paths[self._id][0]}{call.node}"
        self.diagnostics.append(Diagnostic(code=code, message=message, node=path, hint=hint))

    def _is_tensor(self, ref: Ref) -> bool:
        return (self._id, ref.node, ref.port) in self._tensors
