"""Pictures of models of today, drawn by hand here: no edge and no label runs behind a card, however they are arranged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pnne_nb as pn
from pnne_nb.graph.layout import Direction
from pnne_nb.graph.layout.cards import NONE_RESOLVED
from pnne_nb.graph.render.edge_routing import DETOUR, Box, Point, middle
from pnne_nb.graph.render.html import png
from pnne_nb.graph.render.scene import Scene, SceneEdge, scene
from pnne_nb.graph.render.svg import LETTER
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.storage.json_format import read
from pnne_nb.protocol.messages import TensorShape

ARTIFACTS = Path(__file__).resolve().parents[2] / "artifacts"


class Draw:
    """Adds nodes, each fed by those that are named, in the order of their inputs."""

    def __init__(self, name: str) -> None:
        self.graph = pn.NodeGraph(name)

    def __call__(self, type: str, name: str, *sources: str, **values: Any) -> str:
        self.graph.add(type, name=name, **values)
        ports = [port.name for port in self.graph.graphs[""].input_ports(name) or ()]
        for port, source in zip(ports, sources, strict=False):
            self.graph.connect(source, f"{name}.{port}")
        return name


def resnet(name: str, blocks: tuple[int, ...], *, deep: bool) -> pn.NodeGraph:
    draw = Draw(name)
    last = draw("MaxPool2d", "pool", draw("Conv2d", "stem", draw("Input", "image", shape=("N", 3, 224, 224))))
    for stage, count in enumerate(blocks):
        for block in range(count):
            at, start = f"layer{stage}_{block}", last
            for place in range(3 if deep else 2):
                last = draw("BatchNorm2d", f"{at}_bn{place}", draw("Conv2d", f"{at}_conv{place}", last))
                last = draw("ReLU", f"{at}_relu{place}", last)
            side = start if block else draw("BatchNorm2d", f"{at}_down_bn", draw("Conv2d", f"{at}_down", start))
            last = draw("ReLU", f"{at}_out", draw("add", f"{at}_add", last, side))
    draw("Output", "logits", draw("Linear", "fc", draw("Flatten", "flat", last)))
    return draw.graph


def attention(draw: Draw, at: str, x: str, memory: str) -> str:
    norm = draw("LayerNorm", f"{at}_norm", x)
    source = norm if memory == x else memory
    q, k, v = (draw("Linear", f"{at}_{name}", fed) for name, fed in (("q", norm), ("k", source), ("v", source)))
    given = draw("scaled_dot_product_attention", f"{at}_attention", q, k, v)
    return draw("add", f"{at}_sum", draw("Linear", f"{at}_project", given), x)


def feed_forward(draw: Draw, at: str, x: str) -> str:
    wide = draw("GELU", f"{at}_gelu", draw("Linear", f"{at}_up", draw("LayerNorm", f"{at}_norm", x)))
    return draw("add", f"{at}_sum", draw("Linear", f"{at}_down", wide), x)


def gpt() -> pn.NodeGraph:
    draw = Draw("GPT-2-like")
    last = draw("Embedding", "tokens", draw("Input", "ids", shape=("N", 64)))
    for layer in range(4):
        last = attention(draw, f"h{layer}_a", last, last)
        last = feed_forward(draw, f"h{layer}_f", last)
    draw("Output", "logits", draw("Linear", "head", draw("LayerNorm", "norm", last)))
    return draw.graph


def unet() -> pn.NodeGraph:
    draw = Draw("U-Net")
    last, kept = draw("Input", "image", shape=("N", 1, 256, 256)), []
    for level in range(4):
        last = draw("ReLU", f"down{level}_relu", draw("Conv2d", f"down{level}_conv", last))
        kept.append(last)
        last = draw("MaxPool2d", f"down{level}_pool", last)
    last = draw("ReLU", "bottom_relu", draw("Conv2d", "bottom", last))
    for level in reversed(range(4)):
        up = draw("ConvTranspose2d", f"up{level}_up", last)
        last = draw("add", f"up{level}_skip", up, kept[level])
        last = draw("ReLU", f"up{level}_relu", draw("Conv2d", f"up{level}_conv", last))
    draw("Output", "mask", draw("Conv2d", "head", last))
    return draw.graph


def whisper() -> pn.NodeGraph:
    draw = Draw("Whisper-like")
    sound = draw("GELU", "gelu1", draw("Conv1d", "conv1", draw("Input", "mel", shape=("N", 80, 3000))))
    for layer in range(2):
        sound = attention(draw, f"encoder{layer}_a", sound, sound)
        sound = feed_forward(draw, f"encoder{layer}_f", sound)
    words = draw("Embedding", "embed", draw("Input", "words", shape=("N", 448)))
    for layer in range(2):
        words = attention(draw, f"decoder{layer}_a", words, words)
        words = attention(draw, f"decoder{layer}_c", words, sound)
        words = feed_forward(draw, f"decoder{layer}_f", words)
    draw("Output", "logits", draw("Linear", "head", words))
    return draw.graph


def mamba() -> pn.NodeGraph:
    draw = Draw("Mamba-like")
    x = draw("Input", "x", shape=("N", 128, 256))
    norm = draw("LayerNorm", "norm", x)
    gate = draw("SiLU", "gate", draw("Linear", "gate_in", norm))
    inner = draw("SiLU", "silu", draw("Conv1d", "conv", draw("Linear", "inner_in", norm)))
    step = draw("Softplus", "softplus", draw("Linear", "delta", inner))
    b, c = draw("Linear", "B", inner), draw("Linear", "C", inner)
    state = draw("mul", "state", draw("mul", "decay", step, inner), b)
    scanned = draw("mul", "scan", state, c)
    out = draw("Linear", "out", draw("mul", "gated", scanned, gate))
    draw("Output", "y", draw("add", "sum", out, x))
    return draw.graph


MODELS: dict[str, Callable[[], pn.NodeGraph]] = {
    "resnet18": lambda: resnet("ResNet-18", (2, 2, 2, 2), deep=False),
    "resnet50": lambda: resnet("ResNet-50", (3, 4, 6, 3), deep=True),
    "gpt2": gpt,
    "unet": unet,
    "whisper": whisper,
    "mamba": mamba,
}


def along(edge: SceneEdge) -> Iterator[Point]:
    """Places on an edge, close to each other."""
    turn: Callable[[Point], Point] = (lambda point: point[::-1]) if edge.across else (lambda point: point)
    for one, other in pairwise(edge.points):
        (x1, y1), (x2, y2) = turn(one), turn(other)
        bend = (y2 - y1) / 2 if y2 >= y1 else 6.25 * (y1 - y2) ** 0.5
        for step in range(101):
            t = step / 100
            if len(edge.points) > DETOUR or (x1 == x2 and y1 <= y2):
                yield turn((x1 + t * (x2 - x1), y1 + t * (y2 - y1)))
                continue
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
            yield turn(((a + b) * x1 + (c + d) * x2, a * y1 + b * (y1 + bend) + c * (y2 - bend) + d * y2))


def label_box(edge: SceneEdge) -> Box:
    x, y = middle(edge.points)
    width = LETTER * len(edge.label)
    left, bottom = (x - width / 2, y - 6) if edge.across else (x + 7, y + 3.5)
    return left, bottom - 8, left + width, bottom


def hidden(shown: Scene) -> Iterator[str]:
    """What runs behind a card: a corner of one that is only touched does not count."""
    inner = {card.name: (card.box[0] + 2, card.box[1] + 2, card.box[2] - 2, card.box[3] - 2) for card in shown.cards}
    for edge in shown.wires:
        for name, (left, top, right, bottom) in inner.items():
            if any(left < x < right and top < y < bottom for x, y in along(edge)):
                yield f"{edge.source} → {edge.target} behind {name}"
            if edge.labelled and edge.label:
                west, north, east, south = label_box(edge)
                if west < right and left < east and north < bottom and top < south:
                    yield f"the label of {edge.source} → {edge.target} behind {name}"


ROUTABLE = [
    (model, direction)
    for model in MODELS
    for direction in ("down", "right", "columns")
    # Its two towers stand side by side, and edges that skip a layer have no single lane between them.
    if (model, direction) != ("whisper", "down")
]


@pytest.mark.parametrize(("model", "direction"), ROUTABLE)
def test_nothing_runs_behind_a_card(model: str, direction: Direction) -> None:
    graph = MODELS[model]()
    graph.arrange(direction=direction)
    shapes = {f"{name}.output": TensorShape(("N", 64, 56, 56), "float32") for name in graph.nodes}
    ARTIFACTS.mkdir(exist_ok=True)
    picture = png(graph.to_svg("light", shapes=shapes), 0.7)
    (ARTIFACTS / f"model-{model}-{direction}.png").write_bytes(picture)
    shown = scene(read(graph.to_json()), "", registry, shapes, NONE_RESOLVED)
    assert list(hidden(shown)) == []
