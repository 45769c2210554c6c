"""Writes and shortens the texts on a card."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pnne_nb.graph.model.content import GraphIndex
from pnne_nb.graph.model.node import Node, named_shape
from pnne_nb.graph.schema.property_types import OptionalType, PropertyType, TupleType, UnionType, is_number
from pnne_nb.graph.schema.spec import NodeSpec, Property, Required
from pnne_nb.graph.schema.structural import PROMOTED, TRAINABLE
from pnne_nb.graph.schema.values import Calculated, TorchConstant

MAX_PARTS = 4
MAX_VALUE = 24
NAME, MARK = 15, 3
"""Letters of a name, and of a type, that fit a narrow card, and those that a mark beside them takes."""
LINE, WIDE_LINE = 20, 26
"""Letters in one line of a narrow and of a wide card."""
MAX_LINES = 5
BETWEEN = " · "

SIZES_IN = ("in_channels", "in_features", "input_size")
SIZES_OUT = ("out_channels", "out_features", "hidden_size")
NEEDS = "needs "
"""Begins the condition of a check, which is written on the card of an Input."""
MAX_KINDS = 3
"""Kinds of nodes of a block that its card names."""
GENERIC = ("Sequential", "Subgraph")
NO_PART = ("Input", "Output", "Constant", "Parameter", "Buffer")
"""Types of nodes in a block that are no parts of it to a reader."""
PLAIN = ("size", "shape", "dims", "dim0", "dim1", "other", "input", "a", "b")
"""Properties and ports whose values are shown without names."""

_NARROW = frozenset("iljtfrI.,:;'|!()[] -")
_WIDE = frozenset("mwMW@%")
_ELLIPSIS = 0.7
_NUMBER = re.compile(r"_?\d+$")
_SIZE = re.compile(r"[~\w.]+|[⌈⌊].*[⌉⌋]|(\d+\*)?\w+/\d+")


def parts(
    node: Node, spec: NodeSpec | None, resolved: Mapping[str, object], written: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return the few values of a node that its card shows, piece by piece: ``["1→6", "5×5", "stride 2"]``.

    The browser does the same (``js/src/editor/scene/summary.ts``); ``tests/cases/cards.json`` tests both.

    Args:
        node: The node.
        spec: Its type.
        resolved: Values of properties that are ``"auto"``.
        written: Texts for ports with a hidden source (``inlining.py``), by port.
    """
    told = [_written(port, text) for port, text in written.items()]
    if node.type == "Subgraph":
        return told
    if node.type == "Module":
        target = kind(node, {})
        return [target, *told] if target else told
    properties = spec.properties if spec is not None else ()
    into = next((prop for prop in properties if prop.name in SIZES_IN), None)
    out = next((prop for prop in properties if prop.name in SIZES_OUT), None)
    own: list[str] = []
    properties = tuple(prop for prop in properties if prop.name not in (PROMOTED.name, TRAINABLE.name))
    if into is not None and out is not None:
        own.append(f"{_short(_value(into, node, resolved))}→{_short(_value(out, node, resolved))}")
    # Properties of the node itself (device, checkpoint) were chosen for it, and must not be cut off.
    for prop in sorted(properties, key=lambda prop: prop.role != "node"):
        if prop.name not in written and (into is None or out is None or (prop is not into and prop is not out)):
            own += _part(prop, node, resolved)
    return [*told, *own[:MAX_PARTS]]


def block_words(node: Node, graphs: Mapping[str, GraphIndex]) -> str:
    """Return what a block is: its class, or what it holds where that says no more than its name: ``"BasicBlock ×2"``.

    The browser does the same (``js/src/editor/scene/summary.ts``); ``tests/cases/cards.json`` tests both.
    """
    title = kind(node, graphs)
    if title not in GENERIC and title.lower() != _NUMBER.sub("", node.name).lower():
        return title
    inside = graphs.get(node.definition or "")
    held = [each for each in inside.nodes.values() if each.type not in NO_PART] if inside is not None else []
    kinds = [kind(each, graphs) for each in held if each.type[:1].isupper()] or [each.type for each in held]
    for length in range(1, MAX_KINDS + 1):
        count = len(kinds) // length
        if count > 1 and kinds == kinds[:length] * count:
            row = BETWEEN.join(kinds[:length])
            return f"{row if length == 1 else f'({row})'} ×{count}"
    counts = Counter(kinds)
    words = [f"{kind} ×{count}" if count > 1 else kind for kind, count in counts.items()]
    return BETWEEN.join(words[:MAX_KINDS] + ["…"] * (len(words) > MAX_KINDS)) or "block"


def row_title(first: str, last: str) -> str:
    """Return the name of a card for a row of nodes: ``"h_0 … 5"``."""
    stem = _NUMBER.sub("", first)
    return f"{first} … {last.removeprefix(f'{stem}_') if stem == _NUMBER.sub('', last) else last}"


def kind(node: Node, graphs: Mapping[str, GraphIndex]) -> str:
    """Return the type of a node; of a block and of a closed module, the class, without the number of a definition."""
    if node.type == "Module":
        return str(node.properties.get("target", "")).rpartition(".")[2]
    if node.type != "Subgraph" or node.definition is None:
        return node.type
    stem = _NUMBER.sub("", node.definition)
    return stem if stem in graphs or stem in GENERIC else node.definition


def promoted(node: Node, spec: NodeSpec | None) -> list[str]:
    """Return the properties of an inner node that a block shows: ``"conv1 3×3"``."""
    names = node.properties.get(PROMOTED.name)
    if spec is None or not isinstance(names, tuple):
        return []
    found = (spec.property_named(str(name)) for name in names)
    shown = ((prop, _value(prop, node, {})) for prop in found if prop is not None)
    return [
        f"{node.name} {_window(prop, value) if prop.name == 'kernel_size' else _told(prop.name, value)}"
        for prop, value in shown
    ]


def _window(prop: Property, value: object) -> str:
    """Return the size of a window in every dimension: ``5×5`` for 5 in a two-dimensional layer."""
    length = _length(prop.type)
    return "×".join([_number(value)] * length) if is_number(value) and length else _short(value)


def is_wide(title: str, kind: str, told: Sequence[str], marks: int = 0) -> bool:
    """Return whether a narrow card would cut its name, its second line, or a piece of the text below, beside its marks."""
    return max(len(title), len(kind)) > NAME - MARK * marks or any(len(text) > LINE for text in told)


def lines(told: Sequence[str], *, wide: bool = False) -> list[str]:
    """Return the pieces of a text in lines: as many in each as fit; a long piece is wrapped."""
    made, letters = list[str](), WIDE_LINE if wide else LINE
    for text in told:
        if made and len(made[-1]) + len(BETWEEN) + len(text) <= letters:
            made[-1] += BETWEEN + text
        else:
            made += textwrap.wrap(text, letters, break_on_hyphens=False) or [""]
    return made if len(made) <= MAX_LINES else [*made[: MAX_LINES - 1], f"{made[MAX_LINES - 1][: letters - 1]}…"]


def shape_label(shape: Sequence[int | str], dtype: str) -> str:
    """Return the label of an edge: ``"N×6×24×24"``, with the dtype if it is not float32."""
    sizes = [text if _SIZE.fullmatch(text) else f"({text})" for text in map(str, shape)]
    label = "×".join(sizes) or "scalar"
    return label if dtype == "float32" else f"{label} {dtype}"


def fitted(text: str, width: float, size: float, *, code: bool = False) -> str:
    """Return the part of `text` that fits `width` pixels in a font of `size` pixels, with an ellipsis if it is cut."""
    room, used, kept = width / size, 0.0, 0
    for place, letter in enumerate(text):
        used += _breadth(letter, code)
        if used > room:
            return f"{text[:kept].rstrip()}…"
        if used + _ELLIPSIS <= room:
            kept = place + 1
    return text


def _breadth(letter: str, code: bool) -> float:
    """Return an estimate of a letter's width, in parts of the font size."""
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    if code:
        return 0.61
    if letter in _NARROW:
        return 0.36
    return 0.92 if letter in _WIDE else 0.7 if letter.isupper() else 0.6


def _part(prop: Property, node: Node, resolved: Mapping[str, object]) -> list[str]:
    value = _value(prop, node, resolved)
    given = prop.name in node.properties
    if prop.name == "kernel_size" and not isinstance(value, Required):
        return [_window(prop, value)]
    if prop.name == "shape" and isinstance(value, tuple):
        return ["×".join(size if isinstance(size, str) else _number(size) for size in named_shape(node)) or "scalar"]
    # A required argument of a call may come from an edge: it is not missing yet.
    if prop.required and (given or prop.role != "call"):
        return [_told(prop.name, value)]
    if given and node.properties[prop.name] != prop.default:
        if isinstance(value, bool):
            return [f"{'' if value else 'no '}{prop.name}"]
        return [_told(prop.name, value)]
    return [_short(value)] if prop.name in resolved and value == resolved[prop.name] else []


def _written(port: str, text: str) -> str:
    if port == "index":
        return f"[{text}]"
    return text if port in PLAIN or text.startswith(NEEDS) or port[-1:].isdigit() else f"{_brief(port)} {text}"


def _told(name: str, value: object) -> str:
    return _short(value) if name in PLAIN else f"{_brief(name)} {_short(value)}"


def _value(prop: Property, node: Node, resolved: Mapping[str, object]) -> object:
    value = node.properties.get(prop.name, prop.default)
    return resolved[prop.name] if value == "auto" and prop.name in resolved else value


def _brief(name: str) -> str:
    stem = re.sub(r"_(size|channels|features)$", "", re.sub(r"^(num|n)_", "", name))
    return "pad" if stem == "padding" else stem


def _short(value: object) -> str:
    if isinstance(value, Required):
        return "?"
    items = value if isinstance(value, (tuple, list)) else (value,)
    if any(isinstance(item, slice) for item in items):
        return f"[{', '.join(map(subscript, items))}]"[:MAX_VALUE]
    if isinstance(value, (tuple, list)) and value:
        if all(is_number(item) for item in value):
            return "×".join(map(_number, value))
        if len(value) > 1:
            return ", ".join(map(inner, value))[:MAX_VALUE]
    return value[:MAX_VALUE] if isinstance(value, str) else inner(value)[:MAX_VALUE]


def subscript(value: object) -> str:
    """Return an index as Python writes it between brackets: ``1:`` for a slice from 1 on."""
    if not isinstance(value, slice):
        return inner(value)
    start, stop, step = ("" if part is None else inner(part) for part in (value.start, value.stop, value.step))
    return f"{start}:{stop}{f':{step}' if step else ''}"


def brackets(value: object) -> str:
    """Return all that Python writes between the brackets of an index: ``:, 0`` for the tuple of a slice and a number."""
    return ", ".join(map(subscript, value if isinstance(value, tuple) else (value,))) or "()"


def inner(value: object) -> str:
    """Return a value as Python writes it inside a tuple."""
    if isinstance(value, TorchConstant):
        return f"torch.{value.name}"
    if value is Ellipsis:
        return "..."
    if isinstance(value, complex):
        return repr(value).strip("()")
    return _number(value) if is_number(value) else repr(value)


def _number(value: object) -> str:
    return value.text if isinstance(value, Calculated) else repr(value).removesuffix(".0")


def _length(kind: PropertyType) -> int | None:
    """Return the number of dimensions of a window, or None if its type is of any length."""
    match kind:
        case TupleType(length=length):
            return length
        case OptionalType(item):
            return _length(item)
        case UnionType(options):
            return next((length for option in options if (length := _length(option)) is not None), None)
        case _:
            return None
