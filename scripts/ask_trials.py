"""Asks networks many questions at random, and prints what must hold: nothing is changed by it, and answers come quickly.

    python scripts/ask_trials.py [QUESTIONS] [SEED]

A part of the questions raises and another is interrupted, at a call of a layer that is drawn. Afterwards, the networks have the
same weights, buffers, gradients, hooks and modes, and torch, NumPy and Python draw the same numbers. A training whose network
is asked between its steps ends with the weights of its twin. Then the time of a click on a layer is measured, beside a forward
and a backward pass of the same network.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import pnne_nb as pn  # noqa: E402
from pnne_nb.inspector.questions.units import layer_output, look_at_units, peaks  # noqa: E402
from tests.inspector.questions.nets import CASES, Case, made  # noqa: E402
from tests.inspector.questions.untouched import untouched  # noqa: E402

ALLOWED_MS = 150
"""CPU time that a click may take beyond a forward pass, and a backward pass where the question needs one."""


class Interrupted:
    """Raises an error at a call of a layer, in a part of the questions."""

    def __init__(self, net: nn.Module, draws: random.Random) -> None:
        self.left = -1
        self.error: type[BaseException] = RuntimeError
        self.draws = draws
        for module in net.modules():
            module.register_forward_hook(self._count)

    def arm(self) -> None:
        """Raise at one of the next calls, or at none."""
        self.left = self.draws.choice((-1, -1, self.draws.randrange(40)))
        self.error = self.draws.choice((RuntimeError, KeyboardInterrupt, MemoryError))

    def _count(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error


def a_layer(net: nn.Module, draws: random.Random) -> str:
    """Return a layer, or one that does not exist."""
    return draws.choice([*dict(net.named_modules()), "nothing"])


def a_change(case: Case, draws: random.Random) -> Any:
    """Return a change, which need not fit."""
    part: dict[str, Any] = draws.choice(({}, {"channels": [draws.randrange(6)]}, {"tokens": [-1]}, {"heads": [0]}))
    kind = draws.choice((pn.zero, pn.mean, "scale", "clamp", "patch", "function", "shape"))
    match kind:
        case "scale":
            return pn.scale(draws.uniform(-2, 2), **part)
        case "clamp":
            return pn.clamp(-1, 1, **part)
        case "patch":
            return pn.patch(case.data, **part)
        case "function":
            return torch.tanh
        case "shape":
            return lambda tensor: tensor[:1]
        case _:
            return kind(**part)


def called(net: nn.Module, data: Any) -> Any:
    """Call a network with its example."""
    if isinstance(data, dict):
        return net(**data)
    return net(*data) if isinstance(data, tuple) else net(data)


def others(case: Case) -> Any:
    """Return other examples of the form of a case's."""

    def other(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            return 1 - tensor
        return tensor if tensor.dtype == torch.bool else (tensor + 1) % (tensor.max() + 1)

    return tree_map(other, case.data)


def ask(kind: str, case: Case, draws: random.Random) -> object:
    """Ask one question; it may raise."""
    net, layer = case.net, a_layer(case.net, draws)
    match kind:
        case "attribute":
            method = draws.choice(
                ("gradient-x-input", "integrated-gradients", "grad-cam", "occlusion", "captum.Saliency")
            )
            of = draws.choice((None, layer))
            return pn.attribute(net, case.data, draws.choice((case.target, 0, None)), method, of=of, steps=2)
        case "intervene":
            with pn.intervene(net, {layer: a_change(case, draws)}), torch.no_grad():
                modes = [module.training for module in net.modules()]
                buffers = [buffer.clone() for buffer in net.buffers()]
                try:
                    return called(net.eval(), case.data)
                finally:
                    for module, mode in zip(net.modules(), modes, strict=True):
                        module.training = mode
                    for buffer, value in zip(net.buffers(), buffers, strict=True):
                        buffer.copy_(value)
        case "patch_effects":
            return pn.patch_effects(net, case.data, others(case), at=[layer], target=case.target)
        case "project":
            return pn.project(net, case.data, layer)
        case "compare_layers":
            return pn.compare_layers(net, case.data, other_data=others(case))
        case "logit_lens":
            return pn.logit_lens(net, case.data)
        case "explorer":
            explorer = pn.ModuleExplorer(net, case.data)
            try:
                return explorer.ask(layer, draws.choice(("Layer", "Units", "Why", "Number", "Projection", "Sequence")))
            finally:
                explorer.close()
        case "explain_value":
            place = tuple(draws.randrange(3) for _ in range(draws.randrange(1, 5)))
            return pn.explain_value(net, case.data, layer, place)
        case "units":
            return look_at_units(net, case.data, layer, case.data, draws.choice((case.target, None)))
        case "receptive_field":
            shape = layer_output(net, case.data, layer).shape
            return pn.receptive_field(net, case.data, layer, tuple(draws.randrange(size) for size in shape), draws=1)
        case _:
            return peaks(net, case.data, layer, draws.randrange(4))


KINDS = (
    "attribute", "intervene", "patch_effects", "explain_value", "units", "receptive_field", "project", "compare_layers",
    "logit_lens", "explorer", "peaks",
)  # fmt: skip


def questions(count: int, draws: random.Random) -> None:
    """Ask random questions of all kinds, and look at the networks after each."""
    ends = Counter[str]()
    for _ in range(count):
        name, kind = draws.choice(tuple(CASES)), draws.choice(KINDS)
        case = made(name)
        stop = Interrupted(case.net, draws)
        stop.arm()
        with untouched(case.net):
            try:
                ask(kind, case, draws)
                ends[f"{kind}: answered"] += 1
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  what the network raises too
                ends[f"{kind}: {type(error).__name__}"] += 1
    print(f"{count} questions changed nothing:", ", ".join(f"{n} {end}" for end, n in sorted(ends.items())))


def twins(count: int, draws: random.Random) -> None:
    """Train a network that is asked after each step, and one that is not."""
    ends = []
    for asks in (0, count):
        torch.manual_seed(0)
        case = made("residual")
        net = case.net.train()
        engine = pn.TrainingEngine(
            net, (torch.randn(64, 3, 6, 6), torch.randint(5, (64,))), epochs=5, batch_size=16, device="cpu"
        )
        for _ in range(20):
            engine.step()
            with engine.paused() as model:
                live = Case(model, case.data, case.target)
                for _ in range(asks // 20):
                    with suppress(Exception):
                        ask(draws.choice(KINDS), live, draws)
        engine.stop()
        ends.append([tensor.clone() for tensor in (*net.state_dict().values(), torch.get_rng_state())])
    same = all(torch.equal(one, other) for one, other in zip(*ends, strict=True))
    print(f"A training with {count} questions between its steps {'equals' if same else 'DIFFERS FROM'} its twin.")
    if not same:
        raise SystemExit(1)


class Bottleneck(nn.Module):
    """A block of a ResNet-50."""

    def __init__(self, into: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(into, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        self.skip = (
            nn.Identity()
            if into == 4 * width and stride == 1
            else nn.Sequential(nn.Conv2d(into, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        )
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Any:
        """Add what the body makes of it."""
        return self.relu(self.body(x) + self.skip(x))


def resnet() -> tuple[nn.Module, Any, str]:
    """Return a ResNet-50 with pictures, and a layer to click on."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    into = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for place in range(count):
            layers.append(Bottleneck(into, width, stride if place == 0 else 1))
            into = 4 * width
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    return net.eval(), torch.randn(1, 3, 224, 224), "12.body.3"


class Layer(nn.Module):
    """A block of a GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(768), nn.MultiheadAttention(768, 12, batch_first=True)
        self.ln2, self.mlp = nn.LayerNorm(768), nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768))

    def forward(self, x: Tensor) -> Any:
        """Add attention and MLP."""
        y = self.ln1(x)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.attn(y, y, y, attn_mask=later, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """Twelve layers."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(8000, 768), nn.Embedding(128, 768)
        self.blocks = nn.Sequential(*(Layer() for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 8000, bias=False)

    def forward(self, ids: Tensor) -> Any:
        """Return the scores of the next tokens."""
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.places(torch.arange(ids.shape[1])))))


def gpt() -> tuple[nn.Module, Any, str]:
    """Return a GPT of 12 layers with a text, and a layer to click on."""
    return GPT().eval(), torch.randint(8000, (1, 64)), "blocks.6.mlp.0"


def cpu_ms(act: Callable[[], object]) -> float:
    """Return the CPU time of a call in milliseconds, the median of five."""
    act()
    times = []
    for _ in range(5):
        start = time.process_time()
        act()
        times.append(1000 * (time.process_time() - start))
    return statistics.median(times)


async def clicks() -> bool:
    """Print what a click on a layer takes, in a loop as a kernel has one; return whether all are quick enough."""
    quick = True
    for name, make in (("ResNet-50", resnet), ("GPT, 12 layers", gpt)):
        net, x, layer = make()

        def forward(net: nn.Module = net, x: Any = x) -> object:
            with torch.no_grad():
                return net(x)

        def both(net: nn.Module = net, x: Any = x) -> None:
            net(x).flatten()[0].backward()
            net.zero_grad()

        passes = {"forward": cpu_ms(forward), "forward and backward": cpu_ms(both)}
        explorer = pn.ModuleExplorer(net, x)
        print(name, ", ".join(f"{word} {took:.0f} ms" for word, took in passes.items()))
        for tab in ("Layer", "Units", "Why", "Number"):
            explorer._tab.value = tab

            def click(explorer: Any = explorer, tab: str = tab, layer: str = layer) -> None:
                explorer._alive().forget()
                explorer._tab.value = tab
                explorer.select(layer)

            took = cpu_ms(click)
            allowed = passes["forward" if tab == "Number" else "forward and backward"] + ALLOWED_MS
            quick &= took <= allowed
            print(f"  {tab}: {took:.0f} ms, allowed {allowed:.0f} ms{'' if took <= allowed else ', TOO SLOW'}")
        explorer.close()
    return quick


def main(count: int = 1000, seed: int = 0) -> int:
    """Return 0 if nothing was changed and clicks were quick."""
    draws = random.Random(seed)
    questions(count, draws)
    twins(count, draws)
    torch.set_num_threads(1)
    return int(not asyncio.run(clicks()))


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
