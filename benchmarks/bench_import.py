"""What an import takes: processor time, in passes of the model too, also until it is drawn; and memory beside its own.

Memory is the resident peak during the import, less what was resident before: with the activations of the proof and all
that Python keeps. Each model has a process of its own.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn

import pnne_nb as pn
from benchmarks.models import AttentionBlock, resnet50
from pnne_nb.compiler import UnprovedImport

_MIB = 2**20


def vgg11() -> nn.Module:
    """Return a VGG-11, most of which are the weights of its first linear layer."""
    layers: list[nn.Module] = []
    inputs = 3
    for width, count in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    top = (nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout())
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *top, nn.Linear(4096, 1000))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 768, 16, 16)
        self.cls = nn.Parameter(torch.zeros(1, 1, 768))
        self.pos = nn.Parameter(torch.randn(1, 197, 768) * 0.02)
        self.blocks = nn.ModuleList(AttentionBlock(768, 12) for _ in range(12))
        self.norm = nn.LayerNorm(768)
        self.head = nn.Linear(768, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(self.norm(x)[:, 0])
        return out


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 256, 2, batch_first=True)
        self.head = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.lstm(x)[0][:, -1])
        return out


PASSES = 10.0
"""The most passes forward and backward of the model itself that its import may take."""

DRAWN = 4.0
"""The most passes after which an editor shows it."""

MODELS = {
    "ResNet-50": (resnet50, (2, 3, 64, 64), 2.0, 1.5),
    "LSTM": (Recurrent, (32, 64, 64), 2.0, 20.0),
    "VGG-11": (vgg11, (1, 3, 224, 224), 4.0, 2.0),
    "ViT-B": (ViT, (1, 3, 224, 224), 4.0, 2.0),
}
"""What makes each, the shape of its input, and the most CPU seconds and times its own memory that its import may take."""


def _resident(kind: str) -> int:
    found = re.search(rf"{kind}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found is not None else 0


def measure(name: str) -> None:
    make, shape, _, _ = MODELS[name]
    torch.set_num_threads(1)
    pn.from_module(nn.Linear(2, 2), torch.randn(1, 2))  # imports much of torch
    net, x = make(), torch.randn(shape)
    passes = []
    for _ in range(5):
        start = time.process_time()
        net(x).sum().backward()
        passes.append(time.process_time() - start)
        net.zero_grad()
    own = sum(tensor.nbytes for tensor in (*net.parameters(), *net.buffers()))
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    start = time.process_time()
    pn.from_module(net, x)
    seconds = time.process_time() - start
    peak = _resident("VmHWM")
    start = time.process_time()
    UnprovedImport(net, x)
    drawn = time.process_time() - start
    usual = statistics.median(passes)
    print(seconds, seconds / usual, (peak - before) / own, own / _MIB, drawn / usual)


def main() -> None:
    if not Path("/proc/self/clear_refs").exists():
        print("Only Linux tells what a part of a process takes.")
        return
    over = []
    for name, (_, _, seconds, times) in MODELS.items():
        command = f"from benchmarks.bench_import import measure; measure({name!r})"
        done = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True)
        cpu, passes, memory, own, drawn = map(float, done.stdout.split())
        print(
            f"import of a {name:<10} {cpu:6.2f} s CPU (budget {seconds:g})   {passes:5.1f} passes (budget {PASSES:g})   "
            f"{memory:5.2f} x its {own:.0f} MiB (budget {times:g})   drawn after {drawn:4.1f} passes (budget {DRAWN:g})"
        )
        over += [name] if cpu > seconds or passes > PASSES or memory > times or drawn > DRAWN else []
    if over:
        raise SystemExit(f"Over budget: {', '.join(over)}")
