"""Splits a training graph into documents of the model and its objective, and collates their batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias, final

import msgspec

from pnne_nb.catalog.tables.overrides import AUTOMATIC
from pnne_nb.compiler.analysis.example_inputs import TARGET_KEYS
from pnne_nb.errors import TrainingError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.schema.registry import registry
from pnne_nb.runtime.data.batches import PaddedExample, collated
from pnne_nb.runtime.data.datasets import Batched

End: TypeAlias = tuple[str, str]
"""A node and one of its ports."""

LOADED = ("input", "target", "mask")
"""Ports by which a DataLoader gives tensors."""


class Place(msgspec.Struct, frozen=True):
    """Where the ends that the model gives are in its output; with one output, that is the output itself."""

    outputs: Mapping[End, int]
    count: int


@final
class Parts:
    """Splits the nodes of a training graph into model and objective.

    Attributes:
        loader: The node that loads what is trained on.
        model: Names of the nodes that make up the model.
        crossing: What the model gives to the objective.
        inputs: Ports of the loader that the model takes.
        compared: Ports of the loader that the objective takes.
    """

    def __init__(
        self, nodes: Mapping[str, Node], into: Mapping[str, Mapping[str, End]], loader: str, ends: Sequence[End]
    ) -> None:
        self._nodes = nodes
        self._into = into
        self.loader = loader
        used = self._behind(name for name, _ in ends)
        judging = {name for name in used if self._judges(name)}
        grown = True
        while grown:
            more = {name for name in used if any(source in judging for source, _ in into[name].values())} - judging
            grown = bool(more)
            judging |= more
        # What has weights belongs to the model, and so does all that it needs, targets included.
        self.model = (used - judging) | self._behind(name for name in judging if has_weights(nodes[name]))
        objective = used - self.model
        taken = [end for name in objective for end in into[name].values()] + list(ends)
        self.crossing = tuple(dict.fromkeys(end for end in taken if end[0] in self.model))
        self.compared = self._loaded(taken) or ("target",)
        self.inputs = self._loaded(end for name in self.model for end in into[name].values())

    def _judges(self, name: str) -> bool:
        takes_target = (self.loader, "target") in self._into[name].values()
        return takes_target or category_of(self._nodes[name]) == "Loss"

    def _behind(self, names: Iterable[str]) -> set[str]:
        """Return `names` and all nodes of the forward pass before them."""
        found: set[str] = set()
        pending = [name for name in names if is_tensor_node(self._nodes[name])]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += [source for source, _ in self._into[name].values() if is_tensor_node(self._nodes[source])]
        return found

    def _loaded(self, ends: Iterable[End]) -> tuple[str, ...]:
        ports = {port for name, port in ends if name == self.loader}
        return tuple(port for port in LOADED if port in ports)


def category_of(node: Node) -> str:
    """Return the category of a node's type, or an empty string if it is not registered."""
    spec = registry.get(node.type)
    return "" if spec is None else spec.category


def has_weights(node: Node) -> bool:
    """Return whether a node has trainable weights, by its type."""
    # A layer has a size that follows from its input because it has weights of that size.
    return node.definition is not None or any(type == node.type for type, _ in AUTOMATIC)


def is_tensor_node(node: Node) -> bool:
    """Return whether a node is part of a forward pass, not of the training around it."""
    spec = registry.get(node.type)
    return spec is not None and spec.kind != "training"


def by_port(sources: Mapping[str, End]) -> list[tuple[str, End]]:
    """Return the sources of a node's ports; for ports with several edges, in their order."""
    return sorted(sources.items(), key=lambda item: _index(item[0]))


def _index(port: str) -> int:
    return int(port.rpartition("_")[2]) if port.rpartition("_")[2].isdecimal() else -1


@final
class Collate:
    """Makes batches of (what the model takes …, what the objective takes) out of examples, by ports of the loader."""

    def __init__(self, inputs: tuple[str, ...], compared: tuple[str, ...]) -> None:
        self._inputs = inputs
        self._compared = compared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Collate) and (self._inputs, self._compared) == (other._inputs, other._compared)

    def __hash__(self) -> int:
        return hash((self._inputs, self._compared))

    def __call__(self, examples: Any) -> tuple[Any, ...]:
        """Return one batch.

        Raises:
            TrainingError: Examples do not fit together, or a mask is connected and there is none, or the other way round.
        """
        batch: Any = examples if isinstance(examples, Batched) else collated(examples)
        padding = examples[0].padding.values() if isinstance(examples[0], PaddedExample) else ()
        mask = next((batch.pop(name) for _, name in padding if name is not None), None)
        if mask is None and "mask" in self._inputs + self._compared:
            made = 'pn.columns(data, {"x": ("x", "mask")}) makes one.'
            raise TrainingError(f"The mask of the DataLoader is connected, and the examples have none: {made}")
        if mask is not None and "mask" not in self._inputs + self._compared:
            raise TrainingError(
                "The examples have a mask, which tells filled up places from data, and the graph does not use it: set mask "
                "of the DataLoader to True and connect its output, or give pn.columns no name for a mask."
            )
        parts = dict(zip(LOADED, (*_input_and_target(batch), mask), strict=True))
        return (*(parts[port] for port in self._inputs), tuple(parts[port] for port in self._compared))


def _input_and_target(batch: Any) -> tuple[Any, Any]:
    match batch:
        case Mapping():
            rest = dict(batch)
            key = next((key for key in TARGET_KEYS if key in rest), None)
            target = rest.pop(key) if key is not None else None
            return next(iter(rest.values())) if len(rest) == 1 else rest, target
        case list() | tuple() if len(batch) > 1:
            *inputs, target = batch
            return inputs[0] if len(inputs) == 1 else tuple(inputs), target
        case _:
            return batch[0] if isinstance(batch, (list, tuple)) else batch, None


# Documents of the parts


def extract(graph: NodeGraph, definition: str, name: str) -> NodeGraph:
    """Return a definition of a document as a document of that name."""
    document = json.loads(graph.to_json())
    return _made(document, name, document["graphs"][definition])


def cut(
    graph: NodeGraph, name: str, inner: AbstractSet[str], outer: Mapping[End, str], ends: Iterable[End]
) -> NodeGraph:
    """Return some root nodes of a document as a document.

    Args:
        graph: The document.
        name: Of the new one.
        inner: Names of the nodes.
        outer: What feeds them from outside, and what the Input for it is called.
        ends: What becomes an Output, in this order.
    """
    document = json.loads(graph.to_json())
    root = document["graphs"][""]
    sources = {end: f"{_free(entry, inner)}.output" for end, entry in outer.items()}
    nodes: list[dict[str, Any]] = [{"name": _free(entry, inner), "type": "Input"} for entry in outer.values()]
    nodes += [node for node in root.get("nodes", ()) if node["name"] in inner]
    edges = []
    for edge in root.get("edges", ()):
        if split_port(edge["target"])[0] in inner:
            source = split_port(edge["source"])
            edges.append({"source": sources.get(source, edge["source"]), "target": edge["target"]})
    for index, end in enumerate(ends):
        output = _free(f"result{index}", inner)
        nodes.append({"name": output, "type": "Output"})
        edges.append({"source": sources.get(end, ".".join(end)), "target": f"{output}.input"})
    return _made(document, name, {"nodes": nodes, "edges": edges})


def _made(document: Mapping[str, Any], name: str, root: Mapping[str, Any]) -> NodeGraph:
    """Return a document with that root graph and the definitions that it needs."""
    graphs: dict[str, Mapping[str, Any]] = {"": root}
    pending = [root]
    while pending:
        for node in pending.pop().get("nodes", ()):
            holds = node["type"] in ("Subgraph", "Module")
            shown = node.get("properties", {}).get("definition") if holds else None
            if shown is not None and shown not in graphs:
                graphs[shown] = document["graphs"][shown]
                pending.append(graphs[shown])
    return NodeGraph.from_json(json.dumps({**document, "name": name, "graphs": graphs}))


def _free(name: str, taken: AbstractSet[str]) -> str:
    while name in taken:
        name += "_"
    return name
