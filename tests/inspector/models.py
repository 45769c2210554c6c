"""Small modules that several tests look into."""

from __future__ import annotations

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def hooks_on(model: nn.Module) -> int:
    """How many hooks hang on the modules of `model`."""
    return sum(
        len(hooks)
        for module in model.modules()
        for hooks in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    )


def mlp() -> nn.Sequential:
    """Layers ``"0"`` (5 → 7), ``"1"`` (ReLU), ``"2"`` (7 → 3)."""
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


class Twice(nn.Module):
    """One layer under two names, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)
        self.again = self.layer

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.layer(x))  # type: ignore[no-any-return]  # torch types the call of a module as Any


class Checkpointed(nn.Module):
    """A block whose activations are computed again in the backward pass."""

    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 5))
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.block, x.clone().requires_grad_(), use_reentrant=self.reentrant)  # type: ignore[no-any-return]  # torch types the call of a module as Any


class Block(nn.Module):
    """A transformer-like block with an ``ffn``."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.ffn = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.ffn(self.norm(x))  # type: ignore[no-any-return]  # torch types the call of a module as Any


class Encoder(nn.Module):
    """``blocks.0``, ``blocks.1`` and ``head``; ``unused`` is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 2)
        self.unused = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))  # type: ignore[no-any-return]  # torch types the call of a module as Any
