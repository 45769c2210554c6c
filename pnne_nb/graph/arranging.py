"""The automatic arrangement of one graph of a document, as ops."""

from __future__ import annotations

from collections.abc import Mapping

from pnne_nb.graph.geometry import Geometry, geometry, shown_inputs, shows_summary
from pnne_nb.graph.layout import Direction, Link, Size, arrange
from pnne_nb.graph.node import Node, split_port
from pnne_nb.graph.ops import MoveNode
from pnne_nb.graph.ports import input_ports, output_ports
from pnne_nb.graph.spec import NodeSpec
from pnne_nb.graph.state import Content, GraphIndex


def arrangement(
    content: Content, graph: str, types: Mapping[str, NodeSpec], direction: Direction = "down"
) -> tuple[MoveNode, ...]:
    """Return the moves that arrange a graph; none for a node that already stands where it should.

    Raises:
        GraphError: If there is no such graph.
    """
    index = content.require(graph)
    shapes = {}
    for name in index.order:
        node = index.nodes[name]
        summary = shows_summary(node, types.get(node.type))
        shapes[name] = shown_geometry(content, index, node, types, summary=summary)
    links = []
    for edge in index.edges.values():
        (source, out), (target, into) = split_port(edge.source), split_port(edge.target)
        if direction == "down":
            leaves = shapes[source].outputs[out] - shapes[source].width / 2
            arrives = shapes[target].inputs[into] - shapes[target].width / 2
            links.append(Link(source, target, leaves, arrives))
        else:
            links.append(Link(source, target))
    sizes = {name: Size(shape.width, shape.height) for name, shape in shapes.items()}
    places = arrange(sizes, links, direction)
    return tuple(
        MoveNode(name=name, position=position, graph=graph)
        for name, position in places.items()
        if index.nodes[name].position != position
    )


def shown_geometry(
    content: Content, index: GraphIndex, node: Node, types: Mapping[str, NodeSpec], *, summary: bool
) -> Geometry:
    """Return the geometry of a node as it is shown: with the ports that it has, and those that edges use."""
    outputs = [port.name for port in output_ports(content, node, types) or ()]
    # Outputs in use that the type does not declare: an unregistered type's, or those of other settings.
    used = (split_port(edge.source)[1] for edge in index.edges_out_of(node.name))
    outputs = list(dict.fromkeys((*outputs, *used)))
    inputs = shown_inputs(input_ports(content, node, types) or (), index.incoming[node.name])
    return geometry(inputs, outputs, summary=summary)
