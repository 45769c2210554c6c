"""Decides which nodes are written on the cards that use them instead of being drawn.

The browser decides the same (``tests/cases/inlining.json``).

Size arithmetic, constants, parts of a tuple, and the reshapes and casts that one line of code chains: in the source,
they are a few letters; as nodes, they would hide the network. The document is as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pnne_nb.graph.layout.texts import inner, subscript
from pnne_nb.graph.model.content import GraphIndex, topological_order
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.model.repeats import Run

SIZES_OF_TENSORS: Final = ("size", "dim", "numel", "len")
"""Types that give a number, or several, of whatever tensor they take."""
LITERALS: Final = ("Constant", "slice", "dtype")
COMPUTED_VALUES: Final = (
    "getitem",
    "tuple",
    "list",
    "math_sqrt",
    "math_floor",
    "math_ceil",
    "math_trunc",
    "operator_add",
    "operator_sub",
    "operator_mul",
    "operator_truediv",
    "operator_floordiv",
    "operator_mod",
    "operator_pow",
    "operator_neg",
    "operator_pos",
    "operator_abs",
)
"""Types that give no tensor if they take none."""
VALUE_ATTRIBUTES: Final = ("shape", "ndim", "dtype", "device")
"""Attributes of a tensor that are no tensors."""
SPLITS: Final = ("chunk", "split", "tensor_split", "unbind", "hsplit", "vsplit", "dsplit", "unsafe_chunk")
"""Types that give tensors as one value, of which nodes of type ``getitem`` take the parts."""
RESHAPES: Final = (
    "reshape",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "transpose",
    "permute",
    "t",
    "swapaxes",
    "swapdims",
    "movedim",
    "moveaxis",
    "view",
    "expand",
)
CASTS: Final = ("to", "float", "double", "half", "bfloat16", "long", "int", "short", "bool", "contiguous", "detach")
TABLES: Final = ("SIZES_OF_TENSORS", "LITERALS", "COMPUTED_VALUES", "VALUE_ATTRIBUTES", "SPLITS", "RESHAPES", "CASTS")
"""What the browser is told of these."""

_BINARY: Final = {
    "operator_add": (" + ", 1),
    "operator_sub": (" - ", 1),
    "operator_mul": ("*", 2),
    "operator_truediv": ("/", 2),
    "operator_floordiv": ("//", 2),
    "operator_mod": ("%", 2),
    "operator_pow": ("**", 3),
}
_ATOM: Final = 9
_MOST_STEPS: Final = 4
"""Beyond so many steps, a card would be a list."""
MAX_TEXT: Final = 60
"""Letters of an expression; what is longer is cut."""
_PREFIX: Final = re.compile(r"^(operator|math)_")
_NUMBER: Final = re.compile(r"_?\d*$")


class Inlining(NamedTuple):
    """What a graph's cards absorb.

    Attributes:
        hidden: The nodes that have no card of their own; those of `chains` after the first are not among them.
        texts: What is written for an input port that a hidden node feeds, by address:
            ``"view.size"`` gives ``"B, T, 4, C//4"``.
        picks: Hidden nodes that are an output of another node's card: ``"q"`` gives ``"split"``.
        chains: Rows of nodes that are one card, as ``q.view(…).transpose(1, 2)`` is one expression.
    """

    hidden: frozenset[str] = frozenset()
    texts: Mapping[str, str] = {}
    picks: Mapping[str, str] = {}
    chains: tuple[Run, ...] = ()

    @property
    def heads(self) -> dict[str, str]:
        """For each node of a chain but the first, that one, whose card stands for it."""
        return {name: chain[0] for chain in self.chains for name in chain[1:]}

    def giver(self, source: str) -> tuple[str, str]:
        """Return the node and the output on screen where an edge begins that begins at `source` in the document."""
        name, port = split_port(source)
        return (self.picks[name], name) if name in self.picks else (name, port)


def inlining(graph: GraphIndex) -> Inlining:
    """Return what the cards of a graph absorb."""
    return _Reader(graph).read()


def is_given(name: str, type: str) -> bool:
    """Return whether a person has chosen a name: ``conv2`` is the automatic name of a Conv2d, ``stem`` is not."""
    return _plain(name) != _plain(type)


def _plain(words: str) -> str:
    return _NUMBER.sub("", _PREFIX.sub("", words)).lower()


class _Reader:
    def __init__(self, graph: GraphIndex) -> None:
        self.graph = graph
        self.values: set[str] = set()
        self.hidden: set[str] = set()
        self.picks: dict[str, str] = {}
        self.formulas: dict[str, tuple[str, int]] = {}

    def read(self) -> Inlining:
        order = topological_order(self.graph)[0]
        for name in order:
            if (giver := self._giver(name)) is not None:
                self.picks[name] = giver
            elif self._is_value(name):
                self.values.add(name)
        for name in reversed(order):
            if name in self.picks or (name in self.values and self._is_absorbed(name)):
                self.hidden.add(name)
        for name in order:
            if name in self.hidden and name not in self.picks:
                self.formulas[name] = self._formula(name)
        texts = {}
        for edge in self.graph.edges.values():
            source = split_port(edge.source)[0]
            if source in self.formulas and split_port(edge.target)[0] not in self.hidden:
                texts[edge.target] = self._term(source, -1)
        return Inlining(frozenset(self.hidden), texts, self.picks, self._chains())

    def _feeding(self, name: str) -> dict[str, str]:
        """Return the nodes that feed a node, by port."""
        return {port: split_port(self.graph.edges[key].source)[0] for port, key in self.graph.incoming[name].items()}

    def _users(self, name: str) -> list[str]:
        return [split_port(edge.target)[0] for edge in self.graph.edges_out_of(name)]

    def _is_absorbed(self, name: str) -> bool:
        users = self._users(name)
        # What a graph gives is drawn, whatever it is.
        return bool(users) and all(user in self.hidden or self.graph.nodes[user].type != "Output" for user in users)

    def _is_value(self, name: str) -> bool:
        """Return whether a node gives no tensor, but a number or several that are made of sizes and constants."""
        node = self.graph.nodes[name]
        if node.type == "getattr":
            return node.properties.get("name") in VALUE_ATTRIBUTES
        feeding = self._feeding(name).values()
        made = node.type in LITERALS or (node.type in COMPUTED_VALUES and bool(feeding))
        return node.type in SIZES_OF_TENSORS or (made and all(one in self.values for one in feeding))

    def _giver(self, name: str) -> str | None:
        """Return the node whose result a node takes one part of: it is then an output of that."""
        node = self.graph.nodes[name]
        if node.type != "getitem" or type(node.properties.get("index")) is not int:
            return None
        edges = self.graph.edges_into(name)
        if len(edges) != 1:
            return None
        giver, port = split_port(edges[0].source)
        return giver if self.graph.nodes[giver].type in SPLITS and name != port else None

    def _term(self, name: str, level: int) -> str:
        """Return the name of a node, or what it computes; in brackets if it binds less than `level`."""
        if name not in self.formulas or is_given(name, self.graph.nodes[name].type):
            return name
        text, binds = self.formulas[name]
        if len(text) > MAX_TEXT:
            return f"{text[: MAX_TEXT - 1]}…"
        return f"({text})" if binds < level else text

    def _operand(self, node: Node, port: str, level: int) -> str:
        """Return what feeds a port of a value, or the text that was typed there."""
        feeding = self._feeding(node.name)
        if port in feeding:
            return self._term(feeding[port], level)
        return inner(node.properties[port]) if port in node.properties else "?"

    def _formula(self, name: str) -> tuple[str, int]:
        """Write a value as a formula, and return how firmly its parts are bound."""
        node = self.graph.nodes[name]
        if node.type in _BINARY:
            sign, level = _BINARY[node.type]
            return f"{self._operand(node, 'a', level)}{sign}{self._operand(node, 'b', level + 1)}", level
        feeding = self._feeding(name)
        match node.type:
            case "Constant":
                return subscript(node.properties.get("value")), _ATOM
            case "slice":
                start, stop, step = (
                    "" if (text := self._operand(node, port, 0)) == "None" else text
                    for port in ("start", "stop", "step")
                )
                return f"{start}:{stop}{f':{step}' if step else ''}", 0
            case "tuple" | "list":
                wired = sorted(feeding, key=lambda port: int(port.rpartition("_")[2]))
                items = [self._term(feeding[port], 0) for port in wired]
                inside = ", ".join(items)
                if node.type == "list":
                    return f"[{inside}]", _ATOM
                return (f"{inside}," if len(items) == 1 else inside), -1
            case "getattr":
                return f"{self._operand(node, 'input', _ATOM)}.{node.properties.get('name')}", _ATOM
            case "getitem":
                return f"{self._operand(node, 'input', _ATOM)}[{self._operand(node, 'index', -1)}]", _ATOM
            case "operator_neg":
                return f"-{self._operand(node, 'a', _ATOM)}", 2
        called = node.type == "len" or node.type not in SIZES_OF_TENSORS
        subject = next((self._term(one, 0 if called else _ATOM) for one in feeding.values()), "?")
        if called:
            return f"{_PREFIX.sub('', node.type)}({subject})", _ATOM
        dim = node.properties.get("dim")
        return f"{subject}.{node.type}({'' if dim is None else inner(dim)})", _ATOM

    def _chains(self) -> tuple[Run, ...]:
        links = {name: following for name in self.graph.order if (following := self._next(name)) is not None}
        followers = set(links.values())
        found = []
        for start in links:
            if start in followers:
                continue
            chain = [start]
            while chain[-1] in links and len(chain) < _MOST_STEPS:
                chain.append(links[chain[-1]])
            found.append(tuple(chain))
        return tuple(found)

    def _next(self, name: str) -> str | None:
        """Return the next step of an expression: the only user of this one's result, without other drawn inputs."""
        if not self._is_step(name):
            return None
        users = [user for user in self._users(name) if user not in self.hidden]
        if len(users) != 1 or not self._is_step(users[0]):
            return None
        feeding = self._feeding(users[0]).values()
        drawn = [one for one in feeding if one not in self.hidden or one in self.picks]
        return users[0] if len(drawn) == 1 else None

    def _is_step(self, name: str) -> bool:
        return self.graph.nodes[name].type in (*RESHAPES, *CASTS)
