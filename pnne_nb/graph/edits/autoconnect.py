"""Chooses the ports of an edge between two nodes if none are named."""

from __future__ import annotations

from typing import Literal

from pnne_nb.errors import GraphError, PortTakenError, UnknownPortError
from pnne_nb.graph.model.content import Content, GraphIndex, find_input, find_output, input_ports, output_ports
from pnne_nb.graph.model.node import Edge, Node, split_port
from pnne_nb.graph.model.ops import Connect
from pnne_nb.graph.model.paths import NodeRef, find_end
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.schema.spec import Port, kinds_fit


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
