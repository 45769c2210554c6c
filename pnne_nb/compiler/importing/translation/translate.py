"""Translates one recorded ``forward`` to one `Level`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, cast, final

import torch
from torch import fx, nn

from pnne_nb.catalog.operators import RESULT, RESULTS, check_structure
from pnne_nb.compiler.importing.draft.draft import DifferingCallsError, Item, Kind, Level, Source, UntranslatableError
from pnne_nb.compiler.importing.draft.source_lines import line_of, with_line
from pnne_nb.compiler.importing.tracing.alternatives import trace_modes
from pnne_nb.compiler.importing.tracing.call_effects import TYPE, changes, holds_nodes, only_looks
from pnne_nb.compiler.importing.tracing.calls import Slot, named_arguments, parameter_names, port_names
from pnne_nb.compiler.importing.tracing.observed_calls import fields_of
from pnne_nb.compiler.importing.tracing.tracer import AGAIN, FRAMES, MODE, SPOT, VARIABLE, WITHIN, ForwardCall
from pnne_nb.compiler.importing.translation.emit_ops import MAX_STORED, class_title, stored, values_of
from pnne_nb.compiler.importing.translation.functions import function_call, method_call
from pnne_nb.compiler.ir.program import Inside
from pnne_nb.graph.schema.property_types import EnumType, PropertyType, UnionType, check
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import NodeSpec, Port, Returns
from pnne_nb.graph.schema.structural import INSIDE
from pnne_nb.graph.schema.values import TorchConstant, Value, from_json, to_json

Child = Callable[[tuple[str, ...], ForwardCall], Item]
"""Makes the item of a called submodule, without its inputs, from its path and the call."""


def translate(call: ForwardCall, child: Child) -> Level:
    """Trace a call of a module and translate the recording.

    Args:
        call: The call, without submodules to follow.
        child: Makes the items of the submodules that the module calls.

    Raises:
        UntranslatableError: If a part of it cannot be imported.
    """
    followed: set[str] = set()
    call = call._replace(followed=followed, literals=[])
    failure: DifferingCallsError | None = None
    while True:
        try:
            recording = trace_modes(call)
            level = _Translation(call.module, recording.slots, child).run(recording.graph)
        except DifferingCallsError as error:
            if error.path in followed:
                raise
            # Its calls are then drawn among those of its caller.
            followed.add(error.path)
            failure = error
        except UntranslatableError as error:
            if not call.literals:
                raise failure or error from error
            call = call._replace(literals=None)  # the code may ask for the numbers, which a constant has
        else:
            break
    level.assumed = recording.assumed
    level.batches = recording.batches
    level.ranked = recording.ranked
    level.branches = recording.branches
    level.typed = recording.typed
    return level


_TENSOR_ATTRIBUTES = frozenset(("T", "mT", "H", "mH", "real", "imag", "data"))


@final
class _Translation:
    def __init__(self, module: nn.Module, slots: dict[str, Slot], child: Child) -> None:
        self._module = module
        self._slots = slots
        self._child = child
        self._level = Level(class_title(module), module)
        self._sources: dict[fx.Node, Source] = {}
        self._several: dict[fx.Node, tuple[Item, Returns]] = {}  # calls with several outputs
        self._fields: dict[fx.Node, tuple[str, ...]] = {}  # of results that come in one piece
        self._modules: dict[tuple[str, ...], Item] = {}
        self._attributes: dict[str, Item] = {}

    def run(self, graph: fx.Graph) -> Level:
        work = [node for node in graph.nodes if node.op.startswith("call_") and not only_looks(node)]
        self._level.again = bool(work) and all(node.meta.get(AGAIN) for node in work)
        for node in graph.nodes:
            try:
                self._item_of(node)
            except DifferingCallsError:
                raise
            except UntranslatableError as error:
                raise UntranslatableError(with_line(str(error), line_of(node.meta.get(SPOT)))) from error
        return self._level

    def _item_of(self, node: fx.Node) -> None:
        before = len(self._level.items)
        match node.op:
            case "placeholder":
                slot = self._slots[str(node.target)]
                kind: Kind = "tensor" if slot.tensor else "value"
                item = Item("Input", slot.name, argument=slot.name, kinds={"output": kind})
                self._sources[node] = (self._level.add(item), "output")
            case "get_attr":
                self._attribute(node)
            case "call_module":
                self._submodule(node)
            case "call_function" if node.target is operator.getitem and self._unpacked(node):
                pass
            case "call_function" if node.target is check_structure and self._is_drawn(node.args[0]):
                pass  # the drawn graph gives what the example got
            case "call_function":
                self._call(node, *function_call(node, self._kind))
            case "call_method":
                self._call(node, *method_call(node, self._kind))
            case "output":
                self._results(node.args[0])
        for item in self._level.items[before:]:
            item.line = spot[1] if (spot := node.meta.get(SPOT)) is not None else None
        if node.meta.get(WITHIN):
            self._put(self._level.items[before:], node.meta[WITHIN])

    @staticmethod
    def _put(items: list[Item], within: Inside) -> None:
        """Set the contexts of items."""
        for item in items:
            if INSIDE in registry[item.type].properties:
                item.properties[INSIDE.name] = within
            elif item.type not in ("Constant", "Parameter", "Buffer"):
                raise UntranslatableError(
                    f"it calls {item.type} inside {', '.join(within)}, which takes {INSIDE.name} itself"
                )

    def _kind(self, value: Any) -> str:
        if not isinstance(value, fx.Node):
            return "tensor" if isinstance(value, torch.Tensor) else "value"
        if value not in self._sources:
            return "value"
        item, port = self._sources[value]
        return item.kinds.get(port, "tensor")

    def _is_drawn(self, source: Any) -> bool:
        item, _ = self._several[source] if source in self._several else self._sources[source]
        return source.op == "call_module" and item.type != "Module"

    def _attribute(self, node: fx.Node) -> None:
        target = str(node.target)
        if target == MODE:
            return
        if target in self._attributes:
            self._sources[node] = (self._attributes[target], "output")
            return
        path = tuple(target.split("."))
        holder = self._module.get_submodule(".".join(path[:-1]))
        tensor = getattr(holder, path[-1], None)
        if path[-1] in holder._parameters or path[-1] in holder._buffers:
            item = stored(holder, path)
        else:
            if not isinstance(tensor, torch.Tensor):
                raise UntranslatableError(f"it uses a {type(tensor).__name__}, {target}, which no node stands for")
            if tensor.numel() > MAX_STORED:
                raise UntranslatableError(f"it uses a constant tensor of {tensor.numel()} elements, {target}")
            name, dtype = path[-1].lstrip("_") or "constant", str(tensor.dtype).removeprefix("torch.")
            if tensor.is_floating_point() and not tensor.is_meta and not _is_changed(node):
                item = self._fixed_tensor(name, dtype, tensor)
            else:
                kept = {"shape": tuple(tensor.shape), "dtype": dtype, "persistent": False, **values_of(tensor)}
                item = Item("Buffer", name, kept)
        self._attributes[target] = item
        self._sources[node] = (self._level.add(item), "output")

    def _fixed_tensor(self, name: str, dtype: str, tensor: torch.Tensor) -> Item:
        """Return the item of a tensor that keeps its element type when the module changes that of its buffers."""
        values = self._level.add(
            Item("Constant", f"{name}_values", {"value": values_of(tensor)["values"]}, kinds={"output": "value"})
        )
        properties: dict[str, object] = {"dtype": dtype}
        if tensor.device.type != "cpu":
            properties["device"] = str(tensor.device)
        return Item("as_tensor", name, properties, {"data": (values, "output")})

    def _submodule(self, node: fx.Node) -> None:
        path = tuple(str(node.target).split("."))
        if path == ("",):
            raise UntranslatableError("its forward calls itself")
        called = self._module.get_submodule(str(node.target))
        names = parameter_names(called)
        args = tuple(self._slotted(value, names(index)) for index, value in enumerate(node.args))
        kwargs = {name: self._slotted(value, name) for name, value in node.kwargs.items()}
        item = self._child(path, ForwardCall(called, (args, kwargs), node.meta.get(FRAMES, {})))
        item.reason = with_line(item.reason, line_of(node.meta.get(SPOT))) if item.reason else ""
        # Computing a single layer again saves nothing.
        item.again = bool(node.meta.get(AGAIN)) and any(True for _ in called.children())
        if item.type == "Module":
            item.properties["inputs"] = port_names(called, len(node.args), list(node.kwargs))
        owner = self._modules.setdefault(path, item)
        if owner is not item:
            if owner.type != item.type or owner.inner is not item.inner or _made_of(owner) != _made_of(item):
                raise DifferingCallsError(str(node.target))
            item.owner = owner
        self._place(node, called, item)

    def _slotted(self, argument: Any, name: str) -> Any:
        count = 0

        def slot(value: fx.Node) -> Any:
            nonlocal count
            count += 1
            if value.target == MODE and value.op == "get_attr":
                raise UntranslatableError("it passes its training mode on to a submodule")
            return Slot(name if value is argument else f"{name}_{count - 1}", tensor=self._kind(value) == "tensor")

        return fx.node.map_arg(argument, slot)

    def _place(self, node: fx.Node, called: nn.Module, item: Item) -> None:
        """Wire a submodule's item, and note its outputs."""
        spec = registry[item.type]
        if item.type == "Module":
            given = dict(named_arguments(called, node.args, node.kwargs))
            sources = {name: self._source(value) for name, value in given.items()}
            self._level.add(item)
            item.inputs.update(sources)
            self._give(node, item, ("output",))
            frame = next(iter(node.meta.get(FRAMES, {}).values()), None)
            result: Any = frame.result if frame is not None else None
            by_key = isinstance(result, Mapping)
            if is_dataclass(result):
                if not by_key:
                    kind = type(result).__name__
                    raise UntranslatableError(
                        f"{node.target} stays opaque and returns a {kind}, which no node takes apart"
                    )
                self._fields[node] = tuple(fields_of(result))
        elif item.inner is not None:
            values: list[fx.Node] = []
            fx.node.map_arg((node.args, node.kwargs), values.append)
            entries = list(item.inner.of_type("Input"))
            if len(entries) != len(values):
                raise UntranslatableError(f"it gives {node.target} a slice whose bounds it computes")
            sources = {entry.name: self._source(value) for entry, value in zip(entries, values, strict=True)}
            self._level.add(item)
            item.inputs.update(sources)
            outputs = list(item.inner.of_type("Output"))
            for output in outputs:
                source, port = output.inputs["input"]
                item.kinds[output.name] = source.kinds.get(port, "tensor")
            self._give(node, item, tuple(output.name for output in outputs))
        else:
            names = [name.removeprefix("*") for name in spec.positional]
            if len(node.args) > len(names):
                raise UntranslatableError(f"{node.target} is called with more arguments than its node type has")
            self._arguments(item, spec, {**dict(zip(names, node.args, strict=False)), **node.kwargs})
            self._outputs(node, item, spec)

    def _call(self, node: fx.Node, spec: NodeSpec, given: dict[str, Any]) -> None:
        item = Item(spec.type, spec.type.rpartition(".")[2].removeprefix("operator_"))
        self._arguments(item, spec, given)
        self._outputs(node, item, spec)

    def _outputs(self, node: fx.Node, item: Item, spec: NodeSpec) -> None:
        present = spec.present_outputs(cast("dict[str, Value]", item.properties))
        for port in present:
            item.kinds[port.name] = "tensor" if port.kind == "tensor" else self._result_kind(spec, item)
        self._give(node, item, spec.returns or tuple(port.name for port in present))

    def _give(self, node: fx.Node, item: Item, outputs: Returns) -> None:
        if len(outputs) == 1 and isinstance(outputs[0], str):
            self._sources[node] = (item, outputs[0])
            self._keep_variable(node, item, outputs[0])
        else:
            self._several[node] = (item, outputs)

    @staticmethod
    def _keep_variable(node: fx.Node, item: Item, port: str) -> None:
        found = node.meta.get(VARIABLE)
        if found is not None:
            item.variables[port] = found.name
            item.part = found.part

    def _result_kind(self, spec: NodeSpec, item: Item) -> Kind:
        """Return the kind of a result of which the catalogue only says that it is a value."""
        if spec.type in ("getitem", "chunk", "split", "tensor_split", "unbind", "meshgrid", "broadcast_tensors"):
            source = next(iter(item.inputs.values()), None)
            return source[0].kinds.get(source[1], "tensor") if source is not None else "value"
        if spec.type in ("choose", "if_else"):
            sides = [item.inputs.get(name) for name in spec.positional[-2:]]
            return (
                "tensor"
                if all(side and side[0].kinds.get(side[1], "tensor") == "tensor" for side in sides)
                else "value"
            )
        if spec.type == "getattr":
            return "tensor" if item.properties.get("name") in _TENSOR_ATTRIBUTES else "value"
        if spec.type.startswith("operator_"):
            kinds = [source.kinds.get(port, "tensor") for source, port in item.inputs.values()]
            return "tensor" if "tensor" in kinds else "value"
        return "value"

    def _unpacked(self, node: fx.Node) -> bool:
        """Take one of several outputs of a call without a node; return whether that is possible."""
        source, index = node.args
        if isinstance(source, fx.Node) and source in self._fields and type(index) is int:
            node.args = (source, self._fields[source][index])
            return False
        if not isinstance(source, fx.Node) or source not in self._several or type(index) is not int:
            return False
        item, outputs = self._several[source]
        if not -len(outputs) <= index < len(outputs):
            raise UntranslatableError("it takes an item of a result that has fewer")
        taken = outputs[index]
        if isinstance(taken, str):
            self._sources[node] = (item, taken)
            self._keep_variable(node, item, taken)
        else:
            self._several[node] = (item, taken)
        return True

    # Arguments

    def _arguments(self, item: Item, spec: NodeSpec, given: dict[str, Any]) -> None:
        placed: list[tuple[str, Any]] = []
        for name, value in given.items():
            port = next((port for port in spec.inputs if port.name == name), None)
            if port is not None and port.variadic:
                if not isinstance(value, (tuple, list)):
                    raise UntranslatableError(f"{spec.type} gets a list whose length is only known when it runs")
                placed += [(f"{name}_{index}", each) for index, each in enumerate(value)]
            elif not self._typed(item, spec, name, port, value):
                placed.append((name, value))
        for prop in spec.properties:
            if prop.required and prop.role == "call" and prop.name not in given:
                raise UntranslatableError(f"it calls {spec.type} without {prop.name}, which its node type needs")
        sources = {name: self._source(value) for name, value in placed}
        self._level.add(item)
        item.inputs.update(sources)

    def _typed(self, item: Item, spec: NodeSpec, name: str, port: Port | None, value: Any) -> bool:
        """Keep a constant argument as a property; return whether it can be one."""
        prop = spec.property_named(name)
        if prop is not None and prop.role == "node":
            item.properties[name] = value
            return True
        if isinstance(value, fx.Node) and value.op == "get_attr" and value.target == MODE:
            return prop is not None and _admits_mode(prop.type)
        if holds_nodes(value) or isinstance(value, torch.Tensor):
            return False
        if value is None and (prop.default is None if prop is not None else port is not None and port.optional):
            return True
        if prop is None or prop.role != "call":
            return False
        constant = stored_constant(value)
        try:
            if isinstance(value, torch.memory_format):
                constant = str(value).removeprefix("torch.")
            stored = check(prop.type, constant)
        except (ValueError, TypeError):
            return False
        if prop.required or type(stored) is not type(prop.default) or stored != prop.default:
            item.properties[name] = stored
        return True

    def _source(self, value: Any) -> Source:
        """Return the source of an argument: the output that it refers to, or that of new nodes that build it."""
        if isinstance(value, fx.Node):
            if value.op == "get_attr" and value.target == MODE:
                mode = Item("choose", "training", {"train": True, "eval": False}, kinds={"output": "value"})
                return self._level.add(mode), "output"
            if value in self._several:
                return self._packed(*self._several[value], result=_result_name(value))
            return self._sources[value]
        if not holds_nodes(value):
            item = Item("Constant", "constant", {"value": stored_constant(value)}, kinds={"output": "value"})
            return self._level.add(item), "output"
        if isinstance(value, slice):
            parts = {"start": value.start, "stop": value.stop, "step": value.step}
            item = Item("slice", "slice", kinds={"output": "value"})
            wired = {name: self._source(part) for name, part in parts.items() if holds_nodes(part)}
            item.properties = {name: stored_constant(part) for name, part in parts.items() if name not in wired}
            item.inputs.update(wired)
            return self._level.add(item), "output"
        if type(value) in (tuple, list, fx.immutable_collections.immutable_list):
            return self._built("tuple" if type(value) is tuple else "list", [self._source(each) for each in value])
        if isinstance(value, dict) and all(isinstance(key, (str, int)) for key in value):
            return self._built("dict", [self._source(each) for each in value.values()], keys=tuple(value))
        kind = "dictionary whose keys are not strings" if isinstance(value, dict) else type(value).__name__
        raise UntranslatableError(f"a {kind}, with computed parts, cannot be imported")

    def _packed(self, item: Item, outputs: Returns, result: str = "") -> Source:
        parts = [(item, each) if isinstance(each, str) else self._packed(item, each) for each in outputs]
        return self._built(RESULT, parts, name=result) if result else self._built("tuple", parts)

    def _built(self, kind: str, parts: list[Source], **properties: object) -> Source:
        item = Item(kind, kind, properties, kinds={"output": "value"})
        item.inputs.update({f"items_{index}": part for index, part in enumerate(parts)})
        return self._level.add(item), "output"

    def _results(self, value: Any) -> None:
        item, outputs = self._several.get(value, (None, ())) if isinstance(value, fx.Node) else (None, ())
        is_flat = all(isinstance(each, str) for each in outputs)
        if type(value) is tuple and len(value) > 1:
            sources = [self._source(each) for each in value]
        elif item is not None and len(outputs) > 1 and is_flat and not _result_name(value):
            sources = [(item, str(each)) for each in outputs]
        else:
            sources = [self._source(value)]
        for index, source in enumerate(sources):
            item = Item("Output", "output" if len(sources) == 1 else f"output_{index}")
            item.inputs["input"] = source
            self._level.add(item)


def _result_name(node: fx.Node) -> str:
    """Return the name of the torch function whose named tuple a call returns; empty if it returns none."""
    kind = node.meta.get(TYPE)
    name = str(getattr(kind, "__name__", ""))
    return name if name in RESULTS and getattr(torch.return_types, name) is kind else ""


def stored_constant(value: Any) -> Value:
    """Return a constant in the form of a document.

    Raises:
        UntranslatableError: If a document cannot hold it.
    """
    try:
        return from_json(to_json(_plain(value)))
    except (TypeError, ValueError) as error:
        raise UntranslatableError(
            f"it uses a constant of type {type(value).__name__}, which a document cannot hold"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return TorchConstant(str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value] if isinstance(value, list) else tuple(_plain(each) for each in value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _made_of(item: Item) -> dict[str, object]:
    """Return the properties of a submodule's constructor; those of its calls may differ."""
    called = {prop.name for prop in registry[item.type].properties if prop.role == "call"} | {INSIDE.name}
    return {name: value for name, value in item.properties.items() if name not in called}


def _is_changed(tensor: fx.Node) -> bool:
    """Return whether a call changes a stored tensor, or a view of it, in place."""
    for node in tensor.graph.nodes:
        if not (node.target is operator.setitem or changes(node.op, node.target, node.kwargs)):
            continue
        base = node.args[0]
        while isinstance(base, fx.Node) and base.op.startswith("call_") and base.args:
            base = base.args[0]
        if isinstance(base, fx.Node) and base.op == "get_attr" and base.target == tensor.target:
            return True
    return False


def _admits_mode(kind: PropertyType) -> bool:
    return isinstance(kind, UnionType) and any(
        isinstance(option, EnumType) and "auto" in option.choices for option in kind.options
    )
