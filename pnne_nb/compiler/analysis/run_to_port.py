"""Runs a document up to one output port, and no further: what comes after may be unfinished or wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, final

import msgspec
import torch
from torch import nn

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.compiler.analysis.nested_values import copied
from pnne_nb.compiler.ir.variables import unique
from pnne_nb.compiler.pipeline.compile import compile as compile_graph
from pnne_nb.compiler.weights.reuse import carry_over, former_path
from pnne_nb.errors import UnknownNodeError
from pnne_nb.graph import storage
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import split_port
from pnne_nb.graph.schema.values import to_json
from pnne_nb.graph.storage import DocumentState, EdgeState, GraphState, NodeState
from pnne_nb.process.random_state import preserved_random_state


class RunFragment(NamedTuple):
    """The part of a document that one port depends on.

    Attributes:
        graph: The Inputs that it needs, what leads from them to the port, and one Output.
        model: The same, compiled, in eval mode.
        fresh: Names of parameters and buffers that no earlier model has, and that are as initialised.
    """

    graph: NodeGraph
    model: nn.Module
    fresh: tuple[str, ...]


def compile_to_port(graph: NodeGraph, port: str, reuse: nn.Module | None = None) -> RunFragment:
    """Compile what an output port depends on.

    Args:
        graph: The document; what the port does not depend on may have errors.
        port: Path of the port, such as ``"block.conv1.output"``.
        reuse: Whose weights are copied; None for fresh ones.

    Raises:
        UnknownNodeError: If there is no such node, or it stands inside an opaque module.
        CompileError: If what the port depends on cannot be compiled, or the node has no such output.
    """
    cutter = _Cutter(graph.state())
    cut = NodeGraph.from_json(storage.write(cutter.cut(port)))
    with preserved_random_state():
        model = compile_graph(cut, reuse=reuse).eval()
    if reuse is not None and cutter.former:
        carry_over(reuse, model, cutter.former)
        model.eval()
    known = {} if reuse is None else {name: tensor.shape for name, tensor in _tensors(reuse).items()}
    fresh = tuple(
        name
        for name, tensor in _tensors(model).items()
        if known.get(former_path(name, cutter.former) or "") != tensor.shape
    )
    return RunFragment(cut, model, fresh)


def run_fragment(fragment: RunFragment, args: Sequence[Any]) -> Any:
    """Return what the port gives, without gradients, for copies of its inputs."""
    with torch.no_grad(), preserved_random_state():
        return fragment.model(*copied(following(tuple(args), fragment.model)))


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    return dict([*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)])


@final
class _Cutter:
    """Cuts a document to what one port depends on.

    Attributes:
        former: Paths that modules of the cut document have in the whole one, where they differ.
    """

    def __init__(self, document: DocumentState) -> None:
        self.former: dict[str, str | None] = {}
        self._document = document
        self._graphs = dict(document.graphs)

    def cut(self, port: str) -> DocumentState:
        place, _, output = port.rpartition(".")
        self._graphs[""] = self._cut_graph("", tuple(place.split(".")), output, place, "")
        return msgspec.structs.replace(self._document, graphs=self._graphs)

    def _cut_graph(self, id: str, path: tuple[str, ...], output: str, whole: str, above: str) -> GraphState:
        """Return a graph with what an output of one node in it depends on, and that as its only Output.

        A nested graph keeps all its Inputs, which are ports of the node that shows it. Definitions on the way get a cut copy
        of their own: other nodes may show the same definition.
        """
        graph = self._graphs[id]
        nodes = {node.name: node for node in graph.nodes}
        node = nodes.get(path[0])
        if node is None:
            raise UnknownNodeError(f"There is no node {whole!r} in this graph.")
        kept = _needed(graph, nodes, node.name)
        if len(path) > 1:
            definition = node.properties.get("definition")
            if node.type != "Subgraph" or not isinstance(definition, str):
                raise UnknownNodeError(
                    f"{whole!r} is inside {node.name!r}, which runs code of its own: only its outputs can be seen."
                )
            self._part(nodes, kept, node.name, above)
            inner = self._cut_graph(definition, path[1:], output, whole, f"{above}{node.name}.")
            cut = unique(f"{definition}_cut", self._graphs)
            self._graphs[cut] = inner
            node = nodes[node.name]
            nodes[node.name] = msgspec.structs.replace(node, properties={**node.properties, "definition": cut})
            output = inner.nodes[-1].name
        seen = NodeState(unique("here", nodes), "Output")
        edges = [edge for edge in graph.edges if split_port(edge.target)[0] in kept]
        own = [each for name, each in nodes.items() if name in kept or (id and each.type == "Input")]
        if not id and not any(each.type == "Input" for each in own):
            # What hangs on no input can be run all the same; a graph must have one.
            own.insert(0, NodeState(unique("unused", nodes), "Input", {"shape": to_json((1,))}))
        return GraphState(nodes=(*own, seen), edges=(*edges, EdgeState(f"{node.name}.{output}", f"{seen.name}.input")))

    def _part(self, nodes: dict[str, NodeState], kept: Collection[str], name: str, above: str) -> None:
        """Give a module of its own to each node that shares one with a node that is cut: the others run the whole of it."""
        owner = _owner(nodes, name)
        for each in kept:
            if each != owner and _owner(nodes, each) == owner:
                properties = {key: value for key, value in nodes[each].properties.items() if key != "shares"}
                nodes[each] = msgspec.structs.replace(nodes[each], properties=properties)
                whose = former_path(above.removesuffix("."), self.former)
                self.former[f"{above}{each}"] = f"{whose}.{owner}" if whose else owner


def _owner(nodes: Mapping[str, NodeState], name: str) -> str:
    """Return the node whose module a node uses."""
    shared = nodes[name].properties.get("shares")
    return _owner(nodes, shared) if isinstance(shared, str) and shared in nodes else name


def _needed(graph: GraphState, nodes: Mapping[str, NodeState], name: str) -> set[str]:
    """Return the node and all that it depends on, with the nodes whose modules those share."""
    givers: dict[str, list[str]] = {}
    for edge in graph.edges:
        givers.setdefault(split_port(edge.target)[0], []).append(split_port(edge.source)[0])
    needed: set[str] = set()
    pending = [name]
    while pending:
        each = pending.pop()
        if each in needed or each not in nodes:
            continue
        needed.add(each)
        shared = nodes[each].properties.get("shares")
        pending += [*givers.get(each, ()), *([shared] if isinstance(shared, str) else [])]
    return needed
