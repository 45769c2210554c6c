"""Chooses the nodes that are written on the cards of other nodes instead of having their own.

These are size arithmetic, constants, parts of a tuple, and the reshapes and casts of one line of code. In source they are a
few letters; as cards they would hide the network. The document does not change. The browser chooses the same
(``tests/cases/inlining.json``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from pnne_nb.graph.layout.texts import NEEDS, brackets, inner, subscript
from pnne_nb.graph.model.content import GraphIndex, topological_order
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.model.paths import Row

SIZES_OF_TENSORS: Final = ("size", "dim", "numel", "len")
"""Types whose result is one number or several, for any tensor."""
LITERALS: Final = ("Constant", "slice", "dtype")
COMPUTED_VALUES: Final = tuple(
    """
    getitem tuple list math_sqrt math_floor math_ceil math_trunc operator_add operator_sub operator_mul
    operator_truediv operator_floordiv operator_mod operator_pow operator_neg operator_pos operator_abs operator_eq
    operator_ne operator_lt operator_le operator_gt operator_ge choose
    """.split()
)
"""Types whose result is no tensor if no input is one."""
COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")
"""Types that make a mask of a buffer."""
VALUE_ATTRIBUTES: Final = ("shape", "ndim", "dtype", "device")
"""Attributes of a tensor that are no tensors."""
SPLITS: Final = ("chunk", "split", "tensor_split", "unbind", "hsplit", "vsplit", "dsplit", "unsafe_chunk")
"""Types whose result is several tensors as one value; ``getitem`` nodes take its parts."""
RESHAPES: Final = tuple(
    """
    reshape flatten unflatten squeeze unsqueeze transpose permute t swapaxes swapdims movedim moveaxis view expand
    """.split()
)
CASTS: Final = ("to", "float", "double", "half", "bfloat16", "long", "int", "short", "bool", "contiguous", "detach")
PRODUCTS: Final = ("matmul", "bmm", "einsum")
"""Types that may begin an expression of imported code, with any inputs."""
ARITHMETIC: Final = tuple("add sub mul div pow neg sqrt rsqrt exp mean clamp masked_fill where softmax".split())
"""Types that are steps of an expression in imported code, if one of their inputs has a card."""
TABLES: Final = tuple(
    """
    SIZES_OF_TENSORS LITERALS COMPUTED_VALUES COMPARISONS VALUE_ATTRIBUTES SPLITS RESHAPES CASTS PRODUCTS ARITHMETIC
    """.split()
)
"""Names of the tables that the browser needs."""

CHECK: Final = "check"
_BINARY: Final = {
    "operator_add": (" + ", 2),
    "operator_sub": (" - ", 2),
    "operator_mul": ("*", 3),
    "operator_truediv": ("/", 3),
    "operator_floordiv": ("//", 3),
    "operator_mod": ("%", 3),
    "operator_pow": ("**", 4),
}
_COMPARED: Final = {"eq": " == ", "ne": " != ", "lt": " < ", "le": " <= ", "gt": " > ", "ge": " >= "}
_ATOM: Final = 9
_MOST_STEPS: Final = 4
"""Most steps of an expression on one card."""
MAX_TEXT: Final = 60
"""Most letters of an expression; the rest is cut off."""
_PREFIX: Final = re.compile(r"^(operator|math)_")
_NUMBER: Final = re.compile(r"_?\d*$")


class Inlining(NamedTuple):
    """The nodes of a graph that are written on other cards.

    Attributes:
        hidden: The nodes without their own card, except those of `chains`.
        texts: The text for an input port with a hidden source, by address: ``"view.size"`` has ``"B, T, 4, C//4"``; and
            for the edges from a part of a result: ``"getitem.output"`` has ``"x[:, 0]"``.
        picks: Where the edges from parts of results begin on screen: those from ``"q"`` at an output of its own, as
            ``"split.q"``, and those from ``"getitem"`` where the whole result does, as ``"block.output"``.
        chains: Rows of nodes that are one card: ``q.view(…).transpose(1, 2)`` is one expression.
    """

    hidden: frozenset[str] = frozenset()
    texts: Mapping[str, str] = {}
    picks: Mapping[str, str] = {}
    chains: tuple[Row, ...] = ()

    @property
    def heads(self) -> dict[str, str]:
        """The first node of the chain, by the name of each later node."""
        return {name: chain[0] for chain in self.chains for name in chain[1:]}

    def giver(self, source: str) -> tuple[str, str]:
        """Return the node and the output on screen for the source of an edge in the document."""
        return split_port(self.picks.get(split_port(source)[0], source))


def inlining(graph: GraphIndex) -> Inlining:
    """Return the nodes of a graph that are written on other cards."""
    return _Reader(graph).read()


def is_given(name: str, type: str) -> bool:
    """Return whether a name was chosen: ``conv2`` is the automatic name of a Conv2d, ``stem`` is not."""
    return _plain(name) != _plain(type)


def variable_of(node: Node, port: str = "output") -> str | None:
    """Return the name of a node's result in imported code, or None."""
    return None if node.origin is None else node.origin.variables.get(port)


def _plain(words: str) -> str:
    return _NUMBER.sub("", _PREFIX.sub("", words)).lower()


class _Reader:
    def __init__(self, graph: GraphIndex) -> None:
        self.graph = graph
        self.values: set[str] = set()
        self.masks: set[str] = set()
        self.hidden: set[str] = set()
        self.picks: dict[str, str] = {}
        self.formulas: dict[str, tuple[str, int]] = {}

    def read(self) -> Inlining:
        order = topological_order(self.graph)[0]
        for name in order:
            if self._is_value(name):
                self.values.add(name)
            elif self._is_mask(name):
                self.masks.add(name)
            elif (place := self._place(name)) is not None:
                self.picks[name] = place
        for name in reversed(order):
            is_text = name in self.values or name in self.masks
            if name in self.picks or (is_text and self._is_absorbed(name)):
                self.hidden.add(name)
        for name in order:
            if name in self.hidden and split_port(self.picks.get(name, "."))[1] != name:
                self.formulas[name] = self._formula(name)
        texts = {}
        for edge in self.graph.edges.values():
            source = split_port(edge.source)[0]
            if source in self.formulas and split_port(edge.target)[0] not in self.hidden:
                texts[edge.source if source in self.picks else edge.target] = self._term(source, -1)
        for name in order:
            if (host := self._guarded(name)) is not None:
                self.hidden.add(name)
                texts[f"{host}.{name}"] = f"{NEEDS}{texts.pop(f'{name}.condition')}"
        return Inlining(frozenset(self.hidden), texts, self.picks, self._chains())

    def _feeding(self, name: str) -> dict[str, str]:
        """Return the sources of a node, by port."""
        return {port: split_port(self.graph.edges[key].source)[0] for port, key in self.graph.incoming[name].items()}

    def _users(self, name: str) -> list[str]:
        return [split_port(edge.target)[0] for edge in self.graph.edges_out_of(name)]

    def _is_absorbed(self, name: str) -> bool:
        users = self._users(name)
        if self.graph.nodes[name].type == "Buffer":
            return bool(users) and all(user in self.hidden for user in users)
        # Any result of the graph has a card.
        return bool(users) and all(user in self.hidden or self.graph.nodes[user].type != "Output" for user in users)

    def _is_value(self, name: str) -> bool:
        """Return whether the result of a node is no tensor, but one number or several, made of sizes and constants."""
        node = self.graph.nodes[name]
        if node.type == "getattr":
            return node.properties.get("name") in VALUE_ATTRIBUTES
        feeding = self._feeding(name).values()
        made = node.type in LITERALS or (node.type in COMPUTED_VALUES and (bool(feeding) or node.type == "choose"))
        return node.type in SIZES_OF_TENSORS or (made and all(one in self.values for one in feeding))

    def _is_mask(self, name: str) -> bool:
        """Return whether the result of a node is a buffer, a part of one, or a comparison of it: ``bias[:, :, :T] == 0``."""
        node = self.graph.nodes[name]
        if node.type == "Buffer":
            return True
        feeding = self._feeding(name)
        made = node.type == "getitem" or node.type in COMPARISONS
        given = feeding.get("input")
        return made and given in self.masks and all(one in self.values or one == given for one in feeding.values())

    def _place(self, name: str) -> str | None:
        """Return the output on screen at which the edges from a part of a result begin; None if the node has a card."""
        node, edges = self.graph.nodes[name], self.graph.edges_into(name)
        if node.type != "getitem" or len(edges) != 1 or "index" not in node.properties:
            return None
        giver, port = split_port(edges[0].source)
        if name == port:
            return None
        if self.graph.nodes[giver].type in SPLITS and type(node.properties["index"]) is int:
            return f"{giver}.{name}"
        return self.picks.get(giver, edges[0].source) if node.origin is not None and self._users(name) else None

    def _guarded(self, name: str) -> str | None:
        """Return the first Input whose values a check of inputs alone reads, and on whose card it is written; or None."""
        seen = [*self._feeding(name).values()]
        if self.graph.nodes[name].type != CHECK or not seen:
            return None
        for one in seen:
            if one in self.formulas:
                seen += [each for each in self._feeding(one).values() if each not in seen]
        read = {one for one in seen if one not in self.formulas}
        inputs = [one for one in self.graph.order if one in read and self.graph.nodes[one].type == "Input"]
        return inputs[0] if inputs and len(inputs) == len(read) and seen[0] in self.formulas else None

    def _term(self, name: str, level: int) -> str:
        """Return the name of a node, or its formula; in brackets if it binds less than `level`."""
        node = self.graph.nodes[name]
        if is_given(name, node.type) and (name not in self.picks or name not in self.formulas):
            return name
        if name not in self.formulas:
            return variable_of(node) or name
        text, binds = self.formulas[name]
        if len(text) > MAX_TEXT:
            return f"{text[: MAX_TEXT - 1]}…"
        return f"({text})" if binds < level else text

    def _operand(self, node: Node, port: str, level: int) -> str:
        """Return the source of a port as text, or the value that was typed there."""
        feeding = self._feeding(node.name)
        if port in feeding:
            name, output = split_port(self.graph.edges[self.graph.incoming[node.name][port]].source)
            if output != "output":  # one of several, as the states of an LSTM
                return variable_of(self.graph.nodes[name], output) or f"{name}.{output}"
            return self._term(name, level)
        if port not in node.properties:
            return "?"
        return (brackets if port == "index" else inner)(node.properties[port])

    def _formula(self, name: str) -> tuple[str, int]:
        """Return a value as a formula, and the binding strength of its operator."""
        node = self.graph.nodes[name]
        if node.type in _BINARY:
            sign, level = _BINARY[node.type]
            return f"{self._operand(node, 'a', level)}{sign}{self._operand(node, 'b', level + 1)}", level
        if (compared := _COMPARED.get(_PREFIX.sub("", node.type))) is not None:
            one, other = ("input", "other") if node.type in COMPARISONS else ("a", "b")
            return f"{self._operand(node, one, 2)}{compared}{self._operand(node, other, 2)}", 1
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
                as_tuple = f"{inside}," if len(items) == 1 else inside
                return (f"[{inside}]", _ATOM) if node.type == "list" else (as_tuple, -1)
            case "getattr":
                return f"{self._operand(node, 'input', _ATOM)}.{node.properties.get('name')}", _ATOM
            case "getitem":
                return f"{self._operand(node, 'input', _ATOM)}[{self._operand(node, 'index', -1)}]", _ATOM
            case "operator_neg":
                return f"-{self._operand(node, 'a', _ATOM)}", 3
            case "choose":
                return f"{self._operand(node, 'train', 1)} if training else {self._operand(node, 'eval', 1)}", 0
            case "Buffer":
                return name, _ATOM
        called = node.type == "len" or node.type not in SIZES_OF_TENSORS
        subject = next((self._term(one, 0 if called else _ATOM) for one in feeding.values()), "?")
        if called:
            return f"{_PREFIX.sub('', node.type)}({subject})", _ATOM
        dim = node.properties.get("dim")
        return f"{subject}.{node.type}({'' if dim is None else inner(dim)})", _ATOM

    def _chains(self) -> tuple[Row, ...]:
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
        """Return the next step of an expression: the only user of the result, if it has no other inputs with cards."""
        if not self._begins(name):
            return None
        users = [user for user in self._users(name) if user not in self.hidden or user in self.picks]
        if len(users) != 1 or not self._is_step(users[0]):
            return None
        return users[0] if self._drawn_inputs(users[0]) == 1 else None

    def _drawn_inputs(self, name: str) -> int:
        feeding = self._feeding(name).values()
        return sum(one not in self.hidden or one in self.picks for one in feeding)

    def _is_step(self, name: str) -> bool:
        node = self.graph.nodes[name]
        return node.type in (*RESHAPES, *CASTS) or (node.origin is not None and node.type in ARITHMETIC)

    def _begins(self, name: str) -> bool:
        """Return whether an expression may begin with a node, or continue after it."""
        node = self.graph.nodes[name]
        if node.type in PRODUCTS:
            return node.origin is not None
        return self._is_step(name) and (node.type not in ARITHMETIC or self._drawn_inputs(name) == 1)
