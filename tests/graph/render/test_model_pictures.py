"""Pictures of models of today, drawn by hand here: no edge and no label runs behind a card, however they are arranged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pnne_nb as pn
from pnne_nb.graph.layout.cards import NONE_RESOLVED
from pnne_nb.graph.layout.layered import Direction
from pnne_nb.graph.render.edge_routing import DETOUR, Box, Point, middle
from pnne_nb.graph.render.html import png
from pnne_nb.graph.render.scene import Scene, SceneEdge, scene
from pnne_nb.graph.render.svg import LETTER
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.storage import read
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

    def conv(at: str, source: str, channels: int, size: int, stride: int = 1) -> str:
        values = {"out_channels": channels, "kernel_size": size, "stride": stride, "padding": size // 2, "bias": False}
        return draw("Conv2d", at, source, **values)

    last = conv("stem", draw("Input", "image", shape=("N", 3, 224, 224)), 64, 7, 2)
    last = draw("MaxPool2d", "pool", last, kernel_size=3, stride=2, padding=1)
    for stage, count in enumerate(blocks):
        width = 64 << stage
        layers = [(width, 1), (width, 3), (4 * width, 1)] if deep else [(width, 3), (width, 3)]
        for block in range(count):
            at, start = f"layer{stage}_{block}", last
            stride = 2 if stage and not block else 1
            for place, (channels, size) in enumerate(layers):
                last = conv(f"{at}_conv{place}", last, channels, size, stride if place == len(layers) - 2 else 1)
                last = draw("ReLU", f"{at}_relu{place}", draw("BatchNorm2d", f"{at}_bn{place}", last))
            side = start
            if not block:
                side = draw("BatchNorm2d", f"{at}_down_bn", conv(f"{at}_down", start, layers[-1][0], 1, stride))
            last = draw("ReLU", f"{at}_out", draw("add", f"{at}_add", last, side))
    last = draw("Flatten", "flat", draw("AdaptiveAvgPool2d", "mean", last, output_size=1))
    draw("Output", "logits", draw("Linear", "fc", last, out_features=1000))
    return draw.graph


def attention(draw: Draw, at: str, x: str, memory: str, width: int) -> str:
    norm = draw("LayerNorm", f"{at}_norm", x, normalized_shape=width)
    source = norm if memory == x else memory
    q, k, v = (
        draw("Linear", f"{at}_{name}", fed, out_features=width)
        for name, fed in (("q", norm), ("k", source), ("v", source))
    )
    given = draw("scaled_dot_product_attention", f"{at}_attention", q, k, v)
    return draw("add", f"{at}_sum", draw("Linear", f"{at}_project", given, out_features=width), x)


def feed_forward(draw: Draw, at: str, x: str, width: int) -> str:
    norm = draw("LayerNorm", f"{at}_norm", x, normalized_shape=width)
    wide = draw("GELU", f"{at}_gelu", draw("Linear", f"{at}_up", norm, out_features=4 * width))
    return draw("add", f"{at}_sum", draw("Linear", f"{at}_down", wide, out_features=width), x)


def gpt() -> pn.NodeGraph:
    draw = Draw("GPT-2-like")
    ids = draw("Input", "ids", shape=("N", 64), dtype="int64")
    last = draw("Embedding", "tokens", ids, num_embeddings=50257, embedding_dim=768)
    for layer in range(4):
        last = attention(draw, f"h{layer}_a", last, last, 768)
        last = feed_forward(draw, f"h{layer}_f", last, 768)
    norm = draw("LayerNorm", "norm", last, normalized_shape=768)
    draw("Output", "logits", draw("Linear", "head", norm, out_features=50257))
    return draw.graph


def unet() -> pn.NodeGraph:
    draw = Draw("U-Net")

    def conv(at: str, source: str, channels: int) -> str:
        return draw("Conv2d", at, source, out_channels=channels, kernel_size=3, padding=1)

    last, kept = draw("Input", "image", shape=("N", 1, 256, 256)), []
    for level in range(4):
        last = draw("ReLU", f"down{level}_relu", conv(f"down{level}_conv", last, 32 << level))
        kept.append(last)
        last = draw("MaxPool2d", f"down{level}_pool", last, kernel_size=2)
    last = draw("ReLU", "bottom_relu", conv("bottom", last, 512))
    for level in reversed(range(4)):
        up = draw("ConvTranspose2d", f"up{level}_up", last, out_channels=32 << level, kernel_size=2, stride=2)
        last = draw("add", f"up{level}_skip", up, kept[level])
        last = draw("ReLU", f"up{level}_relu", conv(f"up{level}_conv", last, 32 << level))
    draw("Output", "mask", draw("Conv2d", "head", last, out_channels=1, kernel_size=1))
    return draw.graph


def whisper() -> pn.NodeGraph:
    draw = Draw("Whisper-like")
    mel = draw("Input", "mel", shape=("N", 80, 3000))
    sound = draw("GELU", "gelu1", draw("Conv1d", "conv1", mel, out_channels=384, kernel_size=3, padding=1))
    sound = draw("transpose", "frames", sound, dim0=1, dim1=2)
    for layer in range(2):
        sound = attention(draw, f"encoder{layer}_a", sound, sound, 384)
        sound = feed_forward(draw, f"encoder{layer}_f", sound, 384)
    ids = draw("Input", "words", shape=("N", 448), dtype="int64")
    words = draw("Embedding", "embed", ids, num_embeddings=51865, embedding_dim=384)
    for layer in range(2):
        words = attention(draw, f"decoder{layer}_a", words, words, 384)
        words = attention(draw, f"decoder{layer}_c", words, sound, 384)
        words = feed_forward(draw, f"decoder{layer}_f", words, 384)
    draw("Output", "logits", draw("Linear", "head", words, out_features=51865))
    return draw.graph


def mamba() -> pn.NodeGraph:
    draw = Draw("Mamba-like")

    def linear(at: str, source: str, width: int = 512) -> str:
        return draw("Linear", at, source, out_features=width)

    x = draw("Input", "x", shape=("N", 128, 256))
    norm = draw("LayerNorm", "norm", x, normalized_shape=256)
    gate = draw("SiLU", "gate", linear("gate_in", norm))
    conv = draw("Conv1d", "conv", linear("inner_in", norm), out_channels=128, kernel_size=3, padding=1, groups=128)
    inner = draw("SiLU", "silu", conv)
    step = draw("Softplus", "softplus", linear("delta", inner))
    b, c = linear("B", inner), linear("C", inner)
    state = draw("mul", "state", draw("mul", "decay", step, inner), b)
    scanned = draw("mul", "scan", state, c)
    out = linear("out", draw("mul", "gated", scanned, gate), 256)
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
