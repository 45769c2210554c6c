"""Applies ops to the content, and returns the ops that revert them.

These rules concern structure and need no catalogue: undo, files and the browser's own reducer (``js/``, proved equal by
``tests/cases/editing``) follow the same ones. A refused op changes nothing.
"""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import TypeGuard, assert_never

import msgspec

from pnne_nb.errors import (
    BadValueError,
    CycleError,
    GraphError,
    IllegalNameError,
    NameTakenError,
    PortTakenError,
    UnknownPortError,
    near,
    shown,
)
from pnne_nb.graph.model import ops
from pnne_nb.graph.model.annotation import Frame, checked_frame
from pnne_nb.graph.model.content import Content, GraphIndex
from pnne_nb.graph.model.node import Edge, Node, adding, split_port
from pnne_nb.graph.model.ops import Op
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.schema.names import check_identifier, check_name
from pnne_nb.graph.schema.property_types import is_number
from pnne_nb.graph.schema.values import Value


def apply_op(content: Content, op: Op, *, restoring: bool = False) -> list[Op]:  # noqa: C901,PLR0911,PLR0912  one case for each op
    """Change `content` by one op.

    Args:
        content: The document.
        op: The change.
        restoring: Whether the op restores an earlier state. It then skips the search for loops, the only check that can
            cost more than the change.

    Returns:
        The ops that revert it, in the order in which to apply them.

    Raises:
        GraphError: If the op does not fit the document, which is then unchanged.
    """
    match op:
        case ops.AddNode():
            return _add_node(content, op)
        case ops.RemoveNode():
            return _remove_node(content, op)
        case ops.RenameNode():
            return _rename_node(content, op)
        case ops.SetProperty() | ops.ResetProperty():
            return _change_property(content, op)
        case ops.MoveNode():
            graph = content.require(op.graph)
            node = graph.require(op.name)
            graph.replace_node(msgspec.structs.replace(node, position=_position(op.name, op.position)))
            return [ops.MoveNode(op.name, node.position, op.graph)]
        case ops.CollapseNode():
            graph = content.require(op.graph)
            node = graph.require(op.name)
            graph.replace_node(msgspec.structs.replace(node, collapsed=_truth(op.name, op.collapsed)))
            return [ops.CollapseNode(op.name, node.collapsed, op.graph)]
        case ops.SetOrigin():
            graph = content.require(op.graph)
            node = graph.require(op.name)
            graph.replace_node(msgspec.structs.replace(node, origin=_origin(op.name, op.origin)))
            return [ops.SetOrigin(op.name, node.origin, op.graph)]
        case ops.Connect():
            graph = content.require(op.graph)
            edge = Edge(op.source, op.target)
            check_ends(content, graph, edge)
            # Checked before the port: freeing it would not help against a loop.
            if not restoring and graph.reaches(split_port(op.target)[0], split_port(op.source)[0]):
                (source, _), (target, _) = split_port(op.source), split_port(op.target)
                why = f"{source} " + ("is the same node" if source == target else f"already depends on {target}")
                raise CycleError(f"Connecting {op.source} to {op.target} would close a loop{graph.where}: {why}.")
            check_free(graph, edge)
            graph.insert_edge(edge)
            return [ops.Disconnect(op.source, op.target, op.graph)]
        case ops.Disconnect():
            graph = content.require(op.graph)
            graph.require(split_port(op.source)[0])
            target, port = split_port(op.target)
            if graph.feeding(graph.require(target).name, port) != Edge(op.source, op.target):
                raise UnknownPortError(f"There is no edge from {op.source} to {op.target}{graph.where}.")
            graph.drop_edge(Edge(op.source, op.target))
            return [ops.Connect(op.source, op.target, op.graph)]
        case ops.AddGraph(id):
            if check_identifier(id) in content.graphs:
                raise NameTakenError(f"There is a definition {id!r} already.")
            content.graphs[id] = GraphIndex(id)
            return [ops.RemoveGraph(id)]
        case ops.RemoveGraph(id):
            graph = content.require(id)
            if not id:
                raise GraphError("The outermost graph cannot be removed.")
            if users := content.users_of(id):
                raise GraphError(
                    f"Definition {id!r} is used by node {users[0][1]!r}{users[0][0].where}; remove that first."
                )
            if graph.nodes or graph.frames:
                raise GraphError(f"Definition {id!r} is not empty; remove its nodes and frames first.")
            del content.graphs[id]
            return [ops.AddGraph(id)]
        case ops.AddFrame() | ops.ChangeFrame() | ops.RemoveFrame():
            return _change_frames(content.require(op.graph), op)
        case ops.RenameDocument():
            name: object = op.name
            if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 100:
                hint = "" if isinstance(name, str) else " pn.from_module(net, args=(x,)) draws a module."
                raise IllegalNameError(
                    f"A graph cannot be named {shown(name)}: use 1 to 100 printable characters.{hint}"
                )
            old, content.name = content.name, name
            return [ops.RenameDocument(old)]
        case ops.SetSize(name, value):
            return _set_size(content, name, value)
        case _:
            assert_never(op)


def _set_size(content: Content, name: str, value: object) -> list[Op]:
    before = content.sizes.pop(name, None)
    if isinstance(value, int):
        content.sizes[name] = value
    return [ops.SetSize(name, before)]


def make_node(content: Content, graph: GraphIndex, op: ops.AddNode) -> Node:
    """Return the node of an op after all checks, without adding it."""
    name = check_name(op.name)
    if name in graph.nodes:
        raise NameTakenError(f"There is a node {name!r}{graph.where} already.")
    type_name: object = op.type
    if not isinstance(type_name, str) or not type_name:
        raise BadValueError(f"{name}: the type of a node must be the name of a node type, not {shown(type_name)}.")
    properties: dict[str, Value] = dict(op.properties)  # type: ignore[arg-type]  # an op's values are constants
    position, origin = _position(name, op.position), _origin(name, op.origin)
    node = Node(name, type_name, MappingProxyType(properties), position, origin, name, _truth(name, op.collapsed))
    _check_definition(content, graph, node)
    return node


def check_ends(content: Content, graph: GraphIndex, edge: Edge) -> None:
    """Refuse an edge if its ends are no ports."""
    for end, outgoing in ((edge.source, True), (edge.target, False)):
        name, port = split_port(end)
        node = graph.require(name)
        if not port or "." in port:
            raise UnknownPortError(f'{shown(end)} is not a port; write "node.port".')
        if node.type == "Subgraph":
            ports = content.graphs[node.definition].interface[outgoing] if node.definition is not None else ()
            if port not in ports:
                side = "output" if outgoing else "input"
                raise UnknownPortError(f"{name}{graph.where} has no {side} {shown(port)}.{near(port, ports)}")


def check_free(graph: GraphIndex, edge: Edge) -> None:
    """Refuse an edge into a port that already has one."""
    fed = graph.feeding(*split_port(edge.target))
    if fed == edge:
        raise PortTakenError(f"{edge.source} and {edge.target}{graph.where} are connected already.")
    if fed is not None:
        raise PortTakenError(
            f"{edge.target}{graph.where} is fed by {fed.source} already, and an input takes one edge. "
            "Disconnect that one first."
        )


def _add_node(content: Content, op: ops.AddNode) -> list[Op]:
    graph = content.require(op.graph)
    node = make_node(content, graph, op)
    graph.insert_node(node, None if op.index is None else max(op.index, 0))
    content.use(graph.id, node)
    return [ops.RemoveNode(node.name, graph.id)]


def _remove_node(content: Content, op: ops.RemoveNode) -> list[Op]:
    graph = content.require(op.graph)
    node = graph.require(op.name)
    edges = graph.edges_at(node.name)
    outer = _outer_edges(content, graph, node)
    index = graph.index_of(node.name)
    for other, edge in outer:
        other.drop_edge(edge)
    for edge in edges:
        graph.drop_edge(edge)
    graph.drop_node(node.name)
    content.unuse(graph.id, node)
    restored: list[Op] = [adding(node, graph.id, index)]
    restored += [ops.Connect(edge.source, edge.target, graph.id) for edge in edges]
    restored += [ops.Connect(edge.source, edge.target, other.id) for other, edge in outer]
    return restored


def _rename_node(content: Content, op: ops.RenameNode) -> list[Op]:
    graph = content.require(op.graph)
    old = graph.require(op.name)
    name = check_name(op.new_name)
    if name == old.name:
        return []
    if name in graph.nodes:
        raise NameTakenError(f"There is a node {name!r}{graph.where} already.")
    node = msgspec.structs.replace(old, name=name, path=name)
    # References to the new name from a time without such a node must not follow when this is reverted.
    dangling = list(graph.sharers.get(name, ()))
    followers = list(graph.sharers.get(old.name, ()))
    awaiting = content.references(graph.id, name)
    referring = [] if old.held else content.references(graph.id, old.name)
    for user, user_node in content.blocks_of(graph.id) if old.type in ("Input", "Output") else ():
        user.rename_port(user_node, old.name, name)
    content.unuse(graph.id, old)
    graph.rename_node(old.name, node)
    content.use(graph.id, node)
    for follower in followers:
        # A node that shares with itself (only in a damaged file) already has its new name.
        current = graph.nodes[name if follower == old.name else follower]
        graph.replace_node(_with_property(current, "shares", name))
    for around, other, path in referring:
        of = f"{path.removesuffix(old.name)}{name}{other.of.removeprefix(path)}"
        around.replace_node(_with_property(around.nodes[other.name], "of", of))
    undo: list[Op] = [ops.RenameNode(name, old.name, graph.id)]
    undo += [ops.SetProperty(other, "shares", name, graph.id) for other in dangling]
    return undo + [ops.SetProperty(other.name, "of", other.of, around.id) for around, other, _ in awaiting]


def _change_property(content: Content, op: ops.SetProperty | ops.ResetProperty) -> list[Op]:
    graph = content.require(op.graph)
    old = graph.require(op.node)
    if isinstance(op, ops.SetProperty):
        node = _with_property(old, op.property, op.value)
    else:
        kept = {key: value for key, value in old.properties.items() if key != op.property}
        node = msgspec.structs.replace(old, properties=MappingProxyType(kept))
    undo: list[Op] = (
        [ops.SetProperty(op.node, op.property, old.properties[op.property], op.graph)]
        if op.property in old.properties
        else [ops.ResetProperty(op.node, op.property, op.graph)]
    )
    if op.property == "definition":
        _check_definition(content, graph, node)
    if node.definition != old.definition:
        lost = _lost_edges(content, graph, node) if node.type == "Subgraph" else []
        for edge in lost:
            graph.drop_edge(edge)
        undo += [ops.Connect(edge.source, edge.target, graph.id) for edge in lost]
        content.unuse(graph.id, old)
        content.use(graph.id, node)
    graph.replace_node(node)
    return undo


def _lost_edges(content: Content, graph: GraphIndex, node: Node) -> list[Edge]:
    """Return the edges at ports that the definition of a Subgraph node lacks."""
    inputs, outputs = content.graphs[node.definition].interface if node.definition is not None else ((), ())
    lost = [edge for edge in graph.edges_into(node.name) if split_port(edge.target)[1] not in inputs]
    return lost + [edge for edge in graph.edges_out_of(node.name) if split_port(edge.source)[1] not in outputs]


def _check_definition(content: Content, graph: GraphIndex, node: Node) -> None:
    if node.type not in ("Subgraph", "Module") or "definition" not in node.properties:
        return
    definition = node.properties["definition"]
    if definition is None and node.type == "Module":
        return
    if not isinstance(definition, str) or definition not in content.graphs or not definition:
        names = [id for id in content.graphs if id]
        raise BadValueError(
            f"{node.name}.definition cannot be {shown(definition)}: there is no such definition.{near(definition, names)}"
        )
    if content.contains(definition, graph.id):
        raise CycleError(
            f"{node.name}{graph.where} cannot show definition {definition!r}: a graph cannot contain itself."
        )


def _outer_edges(content: Content, graph: GraphIndex, node: Node) -> list[tuple[GraphIndex, Edge]]:
    """Return the outer edges at the port of an Input or Output node, of all Subgraph nodes that show its graph."""
    if node.type == "Input":
        fed = ((user, user.feeding(name, node.name)) for user, name in content.blocks_of(graph.id))
        return [(user, edge) for user, edge in fed if edge is not None]
    if node.type == "Output":
        return [
            (user, edge)
            for user, name in content.blocks_of(graph.id)
            for edge in user.edges_out_of(name)
            if split_port(edge.source)[1] == node.name
        ]
    return []


def _change_frames(graph: GraphIndex, op: ops.AddFrame | ops.ChangeFrame | ops.RemoveFrame) -> list[Op]:
    match op:
        case ops.AddFrame():
            frame = checked_frame(Frame(op.name, op.box, op.title, op.text, op.colour))
            if frame.name in graph.frames:
                raise NameTakenError(f"There is a frame {frame.name!r}{graph.where} already.")
            graph.frames[frame.name] = frame
            return [ops.RemoveFrame(frame.name, graph.id)]
        case ops.ChangeFrame():
            old = graph.require_frame(op.name)
            asked = {"box": op.box, "title": op.title, "text": op.text, "colour": op.colour}
            changes = {field: value for field, value in asked.items() if value is not None}
            graph.frames[old.name] = checked_frame(msgspec.structs.replace(old, **changes))
            before = {field: getattr(old, field) for field in changes}
            return [ops.ChangeFrame(old.name, **before, graph=graph.id)]
        case ops.RemoveFrame():
            old = graph.require_frame(op.name)
            del graph.frames[old.name]
            return [ops.AddFrame(old.name, old.box, old.title, old.text, old.colour, graph.id)]
        case _:
            assert_never(op)


def _with_property(node: Node, name: str, value: object) -> Node:
    changed: dict[str, Value] = {**node.properties, name: value}  # type: ignore[dict-item]  # an op's value is a constant
    return msgspec.structs.replace(node, properties=MappingProxyType(changed))


def _position(name: str, position: object) -> tuple[float, float] | None:
    match position:
        case None:
            return None
        case (x, y) if _is_place(x) and _is_place(y):
            return float(x), float(y)
    raise BadValueError(
        f"{name} cannot be placed at {shown(position)}: a position is a pair of finite numbers. "
        f'Write graph.move("{name}", x=10, y=20).'
    )


def _origin(name: str, origin: object) -> Origin | None:
    if origin is None or isinstance(origin, Origin):
        return origin
    raise BadValueError(f"{name}.origin cannot be {shown(origin)}: it is an Origin, or None for a node that was drawn.")


def _truth(name: str, collapsed: object) -> bool:
    if isinstance(collapsed, bool):
        return collapsed
    raise BadValueError(f"{name}.collapsed cannot be {collapsed!r}: it is True or False.")


def _is_place(number: object) -> TypeGuard[float]:
    # Compared, not converted: a whole number may be too large for a float.
    return is_number(number) and abs(number) <= sys.float_info.max
