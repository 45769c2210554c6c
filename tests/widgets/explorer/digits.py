"""A small network that reads digits with some mistakes, and its data; the same in every run."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn


def digits() -> tuple[nn.Sequential, Tensor, Tensor]:
    """Return the network, 300 pictures `[n, 1, 8, 8]`, and the digits."""
    images, numbers = load_digits(return_X_y=True)
    x = torch.tensor(images[:800], dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    y = torch.tensor(numbers[:800])
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(25):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[:500]), y[:500]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    optimizer.zero_grad()
    return net.eval(), x[500:], y[500:]
