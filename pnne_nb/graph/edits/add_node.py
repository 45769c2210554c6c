"""Adds and places nodes by type, class or layer, under a path or a numbered name; chooses the ports of their edges."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

from pnne_nb.errors import (
    ArgumentError,
    GraphError,
    PortTakenError,
    UnknownPortError,
    UnknownPropertyError,
    UnknownTypeError,
    shown,
)
from pnne_nb.graph.model.content import Content, GraphIndex, find_input, find_output, input_ports, output_ports
from pnne_nb.graph.model.node import Edge, Node, split_port
from pnne_nb.graph.model.ops import AddNode, Connect
from pnne_nb.graph.model.paths import NodeRef, enter, find_end
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.schema.habits import habit, is_container, layers_of, meant_layer
from pnne_nb.graph.schema.names import numbered, split_path, stem_of
from pnne_nb.graph.schema.registry import registry, require_type
from pnne_nb.graph.schema.spec import NodeSpec, Port, kinds_fit
from pnne_nb.graph.schema.structural import MODULE_PROPERTIES

Position = tuple[float, float]


def addition(
    content: Content,
    types: Types,
    type: object,
    arguments: Sequence[object],
    name: str | None,
    properties: Mapping[str, object],
    position: Position | None,
) -> tuple[AddNode, str]:
    """Return the op that adds a node, and the path that the node will have.

    Args:
        content: The document.
        types: The catalogue.
        type: The name of the type, its class or function, or a layer.
        arguments: Positional arguments: the name if it is a text, then values in the order of torch's constructor.
        name: Its name, or a path into a nested graph; numbered by the type if None.
        properties: Property values by name.
        position: Its centre.

    Raises:
        UnknownTypeError: If the catalogue has no such type.
        UnknownNodeError: If the path leads nowhere.
        UnknownPropertyError: If a function lacks a property that the layer of its name has.
        IllegalNameError: If the name is no text.
        ArgumentError: If arguments are given twice, or by position where there is no order.
    """
    if isinstance(type, str) and type not in types and arguments and not is_container(type):
        first = arguments[0]
        if isinstance(first, str) and first in types:
            raise ArgumentError(f'{shown(type)} is no node type. Write graph.add("{first}", name={shown(type)}).')
        if callable(first):
            raise ArgumentError(
                f"{shown(type)} is no node type. Write graph.add({_written(first)}, name={shown(type)})."
            )
    spec, read = meant_type(types, type)
    if name is None and arguments and isinstance(arguments[0], str):
        name, *arguments = arguments  # type: ignore[assignment]  # it is a text
    given = dict(properties)
    _require_layer(spec, types, arguments, given)
    if isinstance(type, str) and not given:
        _warn_of_function(spec, types)
    for key, value in zip(_order(spec, arguments, read), arguments, strict=False):
        if key in given:
            raise ArgumentError(
                f"{spec.type} has {key} twice: {shown(value)} by position, {shown(given[key])} by name."
            )
        given[key] = value
    _require_all(spec, arguments, given)
    prefix, dot, last = ("", "", "") if name is None else split_path(name)
    graph = enter(content, prefix)
    if name is None:
        stem = stem_of(spec.type)
        last = numbered(stem, graph.nodes, graph.numbers.get(stem, 1))
        graph.numbers[stem] = int(last.rpartition(stem)[2])
    return AddNode(last, spec.type, {**read, **given}, position, graph.id), f"{prefix}{dot}{last}"


def meant_type(types: Types, type: object) -> tuple[NodeSpec, Mapping[str, object]]:
    """Return the node type, and the properties of a layer."""
    if isinstance(type, str):
        return require_type(types, type), {}
    name = getattr(type, "__name__", None)
    spec = types.get(name) if isinstance(name, str) else None
    # torch.relu, torch.Tensor.relu and F.relu are one type.
    alike = inspect.isroutine(type) and str(getattr(type, "__module__", None) or "torch").startswith("torch")
    if spec is not None and (spec.torch is type or spec.torch is None or alike):
        return spec, {}
    spec = next((each for each in types.values() if each.torch is not None and each.torch is type), None)
    if spec is not None:
        return spec, {}
    read = registry.of_layer(type)
    if read is not None:
        return require_type(types, read[0]), read[1]
    raise UnknownTypeError(_unknown(types, type, name))


def _written(layer: object) -> str:
    """Return ``"nn.Linear"`` for a class, ``"nn.Linear(...)"`` for a layer."""
    made = not inspect.isclass(layer)
    kind = layer.__class__ if made else layer
    name = getattr(kind, "__name__", "...")
    home = "nn." if str(getattr(kind, "__module__", "")).startswith("torch.nn") else ""
    return f"{home}{name}{'(...)' if made else ''}"


def _unknown(types: Types, type: object, name: object) -> str:
    """Return why an object has no node type, and what to write instead."""
    if isinstance(name, str):
        advice = habit(name, types) or (f" pn.register_node({name}) makes one." if name.isidentifier() else "")
        return f"There is no node type for {name}.{advice or ' pn.register_node(name=...) makes one of a function.'}"
    name = type.__class__.__name__
    advice = habit(name, types)
    if name in types and types[name].torch is type.__class__:
        return (
            f"A {name} does not keep the arguments that it was made with: give its type and properties, "
            f'graph.add("{name}", ...).'
        )
    if not callable(type):
        return f'{shown(type)} is no node type: give the name of one, such as "Linear", its class nn.Linear, or nn.Linear(3, 4).'
    advice = advice or (
        f" pn.from_module(net, args=(x,)) draws what is in it; pn.register_node({name}) makes one node of its class."
    )
    return f"There is no node type for a {name}.{advice}"


def _order(spec: NodeSpec, arguments: Sequence[object], read: Mapping[str, object]) -> list[str]:
    """Return the names of the positional arguments, in the order of the constructor.

    Raises:
        ArgumentError: If there is no order, or there are too many arguments.
    """
    if not arguments:
        return []
    # The properties of a structural type are its arguments.
    common = {prop.name for prop in MODULE_PROPERTIES}
    known = [prop.name for prop in spec.properties if prop.name not in common]
    example = f'graph.add("{spec.type}", {", ".join(f"{name}=..." for name in known[:2])})'
    if read:
        raise ArgumentError(f"The {spec.type} is made already: change its properties by name, as in {example}.")
    if spec.kind in ("function", "method"):
        raise ArgumentError(f"Give the arguments of the function {spec.type} by name: {example}.")
    order = known
    if inspect.isclass(spec.torch) and any(name in known for name in inspect.signature(spec.torch).parameters):
        order = list(inspect.signature(spec.torch).parameters)
    for name, value in zip(order, arguments, strict=False):
        if name not in known:
            raise ArgumentError(
                f"{spec.type} takes no {name} here, which {shown(value)} stands for: give the others by name."
            )
    if len(arguments) > len(order):
        raise ArgumentError(
            f"{spec.type} has {len(order)} arguments ({', '.join(order)}), and {len(arguments)} are given by position."
        )
    return order


def _require_all(spec: NodeSpec, arguments: Sequence[object], given: Mapping[str, object]) -> None:
    """Refuse positional arguments that torch would refuse: ``("Linear", 10)`` would take 10 for the size of the input.

    Raises:
        ArgumentError: If a required argument is missing beside positional ones.
    """
    known = all(spec.property_named(name) is not None for name in given)  # unknown names are reported first
    lacking = [prop.name for prop in spec.required if prop.name not in given and prop.role == "init"]
    if arguments and known and lacking:
        inferred = ", ".join(prop.name for prop in spec.inferable)
        values = ", ".join(f"{name}={shown(arguments[-1])}" for name in lacking)
        raise ArgumentError(
            f"{spec.type} needs {' and '.join(lacking)} as well where arguments are given by position, as in torch. "
            f'Write graph.add("{spec.type}", {values}){f"; {inferred} is inferred" if inferred else ""}.'
        )


def _require_layer(spec: NodeSpec, types: Types, arguments: Sequence[object], given: Mapping[str, object]) -> None:
    """Refuse the arguments of a layer for the function of its name.

    Raises:
        UnknownPropertyError: If the function has no such arguments, or they are positional.
    """
    unknown = [name for name in given if spec.property_named(name) is None]
    layers = layers_of(spec, types) if unknown or arguments else []
    foreign = [name for name in unknown if any(layer.property_named(name) is not None for layer in layers)]
    if layers and (foreign or arguments):
        what = f"has no {', '.join(foreign)}" if foreign else "takes its arguments by name"
        raise UnknownPropertyError(f"{spec.type} is the function, which {what}. {meant_layer(layers)}")


def _warn_of_function(spec: NodeSpec, types: Types) -> None:
    """Warn that a function has no weight of its own, if the layer of its name has one."""
    takes_weight = any(port.name == "weight" and not port.optional for port in spec.inputs)
    layers = layers_of(spec, types) if takes_weight else []
    if layers:
        warnings.warn(
            f"{spec.type} is the function, whose weight comes by an edge. {meant_layer(layers)}",
            stacklevel=5,  # the caller of `add`
        )


def parts_of(layer: object) -> tuple[object, tuple[object, ...], Mapping[str, object]]:
    """Return type, arguments and properties (with the name) of one layer of a chain, for `addition`.

    Raises:
        ArgumentError: If it is an empty tuple.
    """
    match layer:
        case list():
            raise ArgumentError("A list is no layer of a chain. Write graph.chain(*layers).")
        case bool() | int() | float() | Mapping():
            raise ArgumentError(
                f"A layer of a chain cannot be {shown(layer)}. A layer with its arguments is one tuple: "
                'graph.chain(("Conv2d", 3, 16, 3), ("Linear", {"out_features": 10})).'
            )
        case ():
            raise ArgumentError(
                'A layer of a chain cannot be (): give a type, a layer, or a tuple such as ("Linear", 784, 128).'
            )
        # No property takes a class, a function or a layer.
        case (str() as name, made) if callable(made):
            return made, (), {"name": name}
        case (type, *arguments, Mapping() as properties):
            return type, tuple(arguments), properties
        case (type, *arguments):
            return type, tuple(arguments), {}
        case _:
            return layer, (), {}


def place(old: Position | None, x: float | None, y: float | None) -> Position | None:
    """Return a place; a coordinate that is None stays as it was (0 without a place). Without both, return None."""
    if x is None and y is None:
        return None
    left, top = old or (0.0, 0.0)
    return left if x is None else x, top if y is None else y


def connection(content: Content, source: NodeRef, target: NodeRef, types: Types) -> Connect:
    """Return the op that connects two ends; a bare node means its first free port that fits.

    Raises:
        GraphError: If the ends are in different graphs, or no pair of ports is free and fits.
    """
    graph, giver, output = find_end(content, source, output=True)
    other, taker, port = find_end(content, target, output=False)
    if graph is not other:
        raise GraphError(
            f"{source} and {target} are in different graphs. Add an Input or an Output to the inner one, and connect that."
        )
    if output and port:
        return Connect(f"{giver.name}.{output}", f"{taker.name}.{port}", graph.id)
    outputs = _candidates(content, graph, giver, output, types, "output")
    inputs = _candidates(content, graph, taker, port, types, "input")
    free = [end for end in inputs if end.variadic or end.name not in graph.incoming[taker.name]]
    for start in outputs:
        for end in free:
            if kinds_fit(start.kind, end.kind):
                return Connect(f"{giver.name}.{start.name}", f"{taker.name}.{end.name}", graph.id)
    if not free and not graph.reaches(taker.name, giver.name):
        fed = ", ".join(f"{edge.target} by {edge.source}" for edge in graph.edges_into(taker.name))
        raise PortTakenError(f"Every input of {taker.name}{graph.where} is fed already: {fed}. Disconnect one first.")
    # No pair fits: the check of the op reports why, for the first pair.
    return Connect(f"{giver.name}.{outputs[0].name}", f"{taker.name}.{(free or inputs)[0].name}", graph.id)


def loose_end(content: Content, types: Types) -> Node | None:
    """Return the node of the root whose outputs are not used, or None if no node has an output.

    Raises:
        GraphError: If there are several such nodes, or none.
    """
    graph = content.graphs[""]
    giving = [graph.nodes[name] for name in graph.order if output_ports(content, graph.nodes[name], types)]
    loose = [node for node in giving if not any(graph.edges_out_of(node.name))]
    if len(loose) == 1 or not giving:
        return loose[0] if loose else None
    ends = (
        f"the outputs of {', '.join(node.name for node in loose)} lead nowhere"
        if loose
        else "every output leads somewhere"
    )
    raise GraphError(
        f'It is not clear where the chain begins, because {ends}: name the node, as in graph.chain(..., after="{giving[-1].name}").'
    )


def edges_between(content: Content, source: NodeRef, target: NodeRef) -> tuple[GraphIndex, list[Edge]]:
    """Return the edges from one end to another; a bare node means all its ports.

    Raises:
        GraphError: If there is none.
    """
    graph, giver, output = find_end(content, source, output=True)
    other, taker, port = find_end(content, target, output=False)
    edges = [
        edge
        for edge in (graph.edges_out_of(giver.name) if graph is other else ())
        if split_port(edge.target)[0] == taker.name
        and output in ("", split_port(edge.source)[1])
        and port in ("", split_port(edge.target)[1])
    ]
    if not edges:
        raise UnknownPortError(f"There is no edge from {source} to {target}{graph.where}.")
    return graph, edges


def _candidates(
    content: Content, graph: GraphIndex, node: Node, named: str, types: Types, side: Literal["input", "output"]
) -> tuple[Port, ...]:
    """Return the named port of a node, or all ports of one side."""
    if named:
        end = (find_input if side == "input" else find_output)(content, node, named, types)
        return (Port(named, kind=end.kind if end is not None else "value"),)
    ports = (input_ports if side == "input" else output_ports)(content, node, types)
    if ports:
        return ports
    is_known = ports is not None
    why = f"has no {side}s" if is_known else f'is of an unregistered type; name the {side}, as in "{node.name}.{side}"'
    raise UnknownPortError(f"{node.name} ({node.type}){graph.where} {why}.")
