"""Computes the explorer's picture: visible layers, edges between them, and positions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, assert_never, final

from pnne_nb.graph.layout.layered import Direction, LayeredEdge, Size, arrange
from pnne_nb.graph.schema.categories import Category, category_named
from pnne_nb.graph.schema.registry import registry
from pnne_nb.inspector.tools.dataflow import INPUT, JOIN, OUTPUT, Flow, FlowLayer, Shape

Kind = Literal["open", "closed", "layer", "join", "end", "more"]

Cost = Literal["time", "parameters"]

Colouring = Literal["type", "difference"] | Cost
"""The meaning of a layer's colour and of the second line of its box."""

MAX_ELEMENTS: Final = 200
"""Most boxes and edges that are shown at once; each is a widget model in the browser."""

FIRST_BOXES: Final = 12
"""Approximate number of boxes at the start."""

MAX_CHILDREN: Final = 60
"""Most layers of one container that are shown at once."""

VIEW: Final = Size(660.0, 590.0)
"""Approximate size of the picture in the page."""

HEADER: Final = 26.0
PADDING: Final = 16.0
TIGHTER: Final = 22.0
"""Pixels by which ranks are closer together than in the editor."""


@final
@dataclass(frozen=True)
class Box:
    """One node of the picture.

    Attributes:
        key: Path of a layer, or another end of `Flow.links`.
        parent: Path of the open layer around it, or None.
        kind: ``"open"``, ``"closed"``, ``"layer"`` (a leaf), ``"join"``, ``"end"`` or ``"more"``.
        label: Its lines of text.
        center: Position in pixels.
        size: Size in pixels; that of an open layer follows from its contents.
        heat: Square root of its share of the largest time or number of parameters, 0 to 1, so that small shares can be told
            apart; None if its kind or category gives the colour.
        category: Category of a leaf layer, or None.
    """

    key: str
    parent: str | None
    kind: Kind
    label: str
    center: tuple[float, float]
    size: Size
    heat: float | None = None
    category: Category | None = None


@final
@dataclass(frozen=True)
class ExplorerPicture:
    """Boxes, open layers before their contents, and edges with the shapes of their tensors."""

    boxes: tuple[Box, ...]
    edges: Mapping[tuple[str, str], Shape]

    def __len__(self) -> int:
        return len(self.boxes) + len(self.edges)


def category_of(layer: FlowLayer) -> Category:
    """Return the category of a layer's type; for a class that is not a node type, its name suggests one."""
    spec = registry.get(layer.kind)
    return category_named(layer.kind if spec is None else spec.category)


def first_open(flow: Flow) -> set[str]:
    """Return the layers that are open at the start: level by level, while there is room."""
    opened: set[str] = set()
    level = [""]
    while level:
        for path in level:
            trial = opened | {path}
            if path and len(draw(flow, trial).boxes) > FIRST_BOXES:
                return opened
            opened = trial
        level = [child for path in level for child in flow.layers[path].children if flow.layers[child].children]
    return opened


def draw(
    flow: Flow,
    opened: Collection[str],
    focus: str = "",
    colouring: Colouring = "type",
    differences: Mapping[str, float] | None = None,
) -> ExplorerPicture:
    """Return the picture in which the layers `opened` show their contents.

    Args:
        flow: The layers and links.
        opened: Paths of open layers; those inside a closed layer are not visible.
        focus: A layer that is visible even if its container has too many to show all.
        colouring: The meaning of the colours.
        differences: By layer, for the colouring ``"difference"``.
    """
    children = {path: _shown(flow, path, focus) for path in opened}
    edges: dict[tuple[str, str], Shape] = {}
    places: dict[str, str] = {}
    for (source, target), shape in flow.links.items():
        ends = _lift(source, opened, children), _lift(target, opened, children)
        if ends[0][0] != ends[1][0]:
            edges.setdefault((ends[0][0], ends[1][0]), shape)
            places |= dict(end for end in ends if end[0] not in flow.layers)
    candidates: list[tuple[float, list[Box]]] = []
    for direction in ("down", "right"):
        size, placed = _place(_Drawn(flow, opened, children, edges, places), "", direction)
        candidates.append((min(VIEW.width / size.width, VIEW.height / size.height), placed))
    # The direction in which the whole graph is shown larger.
    boxes = max(candidates, key=lambda candidate: candidate[0])[1]
    if colouring == "difference":
        boxes = [_differing(flow, box, differences or {}) for box in boxes]
    elif colouring != "type":
        boxes = _heated(flow, boxes, colouring)
    known = {box.key for box in boxes}
    return ExplorerPicture(tuple(boxes), {ends: shape for ends, shape in edges.items() if set(ends) <= known})


def _heated(flow: Flow, boxes: list[Box], colouring: Cost) -> list[Box]:
    """Return `boxes` coloured by the cost of their layers."""
    told = [box for box in boxes if box.key in flow.layers and box.kind != "open"]
    costs = {box.key: cost_of(flow, box.key, colouring) for box in told}
    total, largest = cost_of(flow, "", colouring) or 1.0, max(costs.values(), default=0.0) or 1.0
    return [
        replace(
            box,
            label=_costly(flow.layers[box.key], costs[box.key], total, colouring),
            heat=(costs[box.key] / largest) ** 0.5,
        )
        if box.key in costs
        else box
        for box in boxes
    ]


def _differing(flow: Flow, box: Box, differences: Mapping[str, float]) -> Box:
    """Return a box coloured by the relative difference of its layer's output, of which 1 and more is the hottest."""
    found = differences.get(box.key)
    if found is None or box.kind == "open":
        return box
    said = "another size" if found != found else f"differs by {found:.2g}"  # noqa: PLR0124  NaN
    heat = 1.0 if found != found else min(1.0, found) ** 0.5  # noqa: PLR0124
    return replace(box, label=f"{_label(flow.layers[box.key]).splitlines()[0]}\n{said}", heat=heat)


def cost_of(flow: Flow, path: str, cost: Cost) -> float:
    """Return a layer's seconds or number of parameters, inner layers included."""
    layer = flow.layers[path]
    match cost:
        case "time":
            # A container that is not called itself, such as a ModuleList, takes the time of its layers.
            inside = sum(cost_of(flow, child, cost) for child in layer.children) if layer.seconds is None else 0.0
            return inside if layer.seconds is None else layer.seconds
        case "parameters":
            return float(layer.parameters)
        case _:
            assert_never(cost)


def _costly(layer: FlowLayer, cost: float, total: float, kind: Cost) -> str:
    head = _label(layer).splitlines()[0]
    if kind == "time" and not layer.calls and not layer.children:
        return f"{head}\nnot called"
    number = f"{1000 * cost:.2f} ms" if kind == "time" else f"{cost:,.0f}"
    return f"{head}\n{number} · {cost / total:.0%}"


def _shown(flow: Flow, path: str, focus: str) -> tuple[list[str], int]:
    """Return the visible layers of a container, and the number of hidden ones."""
    inside = list(flow.layers[path].children)
    if len(inside) <= MAX_CHILDREN:
        return inside, 0
    at = next((index for index, child in enumerate(inside) if f"{focus}.".startswith(f"{child}.")), 0)
    start = max(0, min(at - MAX_CHILDREN // 2, len(inside) - MAX_CHILDREN))
    return inside[start : start + MAX_CHILDREN], len(inside) - MAX_CHILDREN


def _lift(end: str, opened: Collection[str], children: Mapping[str, tuple[list[str], int]]) -> tuple[str, str]:
    """Return the visible box of a link's end, and the open layer around it."""
    if end.startswith((INPUT, OUTPUT)):
        return end, ""
    path = end.removeprefix(JOIN)
    place = ""
    while place != path:
        if place not in opened:
            return place, place.rpartition(".")[0]
        step = path[len(place) :].lstrip(".").partition(".")[0]
        below = f"{place}.{step}" if place else step
        if below not in children[place][0]:
            return f"more:{place}", place
        place = below
    if end.startswith(JOIN) and path in opened:
        return end, path
    return path, path.rpartition(".")[0]


class _Drawn(NamedTuple):
    """The layers, those that are open and what each of these shows; the edges, and the open layers around other ends."""

    flow: Flow
    opened: Collection[str]
    children: Mapping[str, tuple[list[str], int]]
    edges: Iterable[tuple[str, str]]
    places: Mapping[str, str]


def _place(drawn: _Drawn, path: str, direction: Direction = "down") -> tuple[Size, list[Box]]:
    """Return the size of the open layer `path`, and the boxes inside it from its upper left corner."""
    shown, hidden = drawn.children[path]
    inner: dict[str, tuple[Size, list[Box]]] = {}
    for child in shown:
        if child in drawn.opened:
            inner[child] = _place(drawn, child)
        else:
            letters = max(map(len, _label(drawn.flow.layers[child]).splitlines()))
            inner[child] = Size(max(112.0, 7.0 * letters + 20), 46.0), []
    extra = [key for key, place in drawn.places.items() if place == path]
    if hidden:
        extra.append(f"more:{path}")
    for key in dict.fromkeys(extra):
        inner[key] = Size(26.0, 26.0) if key.startswith(JOIN) else Size(110.0, 30.0), []
    owner = {key: key for key in inner}
    owner |= {box.key: key for key, (_, parts) in inner.items() for box in parts}
    links = [
        LayeredEdge(owner[source], owner[target])
        for source, target in drawn.edges
        if source in owner and target in owner and owner[source] != owner[target]
    ]
    across = direction == "right"
    tighter = TIGHTER if links else 0.0  # boxes without edges are stacked with only a gap between them
    sizes = {
        key: Size(size.width - tighter * across, size.height - tighter * (not across))
        for key, (size, _) in inner.items()
    }
    centers = arrange(sizes, links, direction) if inner else {}
    left = min((centers[key][0] - inner[key][0].width / 2 for key in inner), default=0.0)
    top = min((centers[key][1] - inner[key][0].height / 2 for key in inner), default=0.0)
    right = bottom = 0.0
    boxes: list[Box] = []
    for key, (size, parts) in inner.items():
        x, y = centers[key][0] - left + PADDING, centers[key][1] - top + PADDING + HEADER
        right, bottom = max(right, x + size.width / 2), max(bottom, y + size.height / 2)
        corner = x - size.width / 2, y - size.height / 2
        boxes += [replace(box, center=(box.center[0] + corner[0], box.center[1] + corner[1])) for box in parts]
        if not parts:
            boxes.append(_box(drawn.flow, key, path or None, (x, y), size, hidden))
    size = Size(right + PADDING, bottom + PADDING)
    if path:
        layer, around = drawn.flow.layers[path], path.rpartition(".")[0] or None
        title, middle = f"{layer.name} · {layer.kind}", (size.width / 2, size.height / 2)
        boxes.insert(0, Box(path, around, "open", title, middle, size))
    return size, boxes


def _box(flow: Flow, key: str, parent: str | None, center: tuple[float, float], size: Size, hidden: int) -> Box:
    if key.startswith("more:"):
        return Box(key, parent, "more", f"… {hidden} more", center, size)
    if key.startswith(JOIN):
        return Box(key, parent, "join", "+", center, size)
    if key.startswith((INPUT, OUTPUT)):
        return Box(key, parent, "end", key.replace(":", " ").strip(), center, size)
    layer = flow.layers[key]
    if layer.children:
        return Box(key, parent, "closed", _label(layer), center, size)
    return Box(key, parent, "layer", _label(layer), center, size, category=category_of(layer))


def _label(layer: FlowLayer) -> str:
    marker = "▸ " if layer.children else ""
    shape = "×".join(map(str, layer.outputs[0])) if layer.outputs else f"{layer.parameters:,} parameters"
    return f"{marker}{layer.name} · {layer.kind}\n{shape}"
