"""Records the attention weights that a model computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.inspector.capture.call_arguments import call_arguments
from pnne_nb.inspector.capture.preserve import hooked_run, uncompiled

_SOFTMAX = frozenset({F.softmax, torch.softmax, Tensor.softmax})

LARGEST = 512
"""Most queries and keys that are kept of a map: 4,096 positions would take 64 MiB for each head."""


def attention_maps(net: nn.Module, args: object) -> dict[str, Tensor]:
    """Run `net` once without gradients and return the attention weights that it computes; `net` is not changed.

    It recognises ``nn.MultiheadAttention`` (also inside ``nn.Transformer``), ``F.scaled_dot_product_attention`` and
    softmax over the last of four dimensions.

    Args:
        net: Any module; a compiled one is run uncompiled.
        args: Its positional arguments as a tuple, or its only argument; a mapping is its keyword arguments.

    Returns:
        Maps `[n, heads, queries, keys]` by path of the layer, in the order of calls: each from the layer's last call, cut
        to 512 queries and keys. Rows sum to 1 before they are cut.
    """
    model = uncompiled(net)
    recorder = _Recorder()
    positional, named = call_arguments(following(args, model), model)
    with hooked_run(model, grad=False) as hooks, recorder:
        hooks.on_calls(model, recorder.enter, recorder.leave)
        model(*positional, **named)
    return recorder.maps


@final
class _Recorder(TorchFunctionMode):
    # An active mode turns off torch's fused fast path of attention layers.

    def __init__(self) -> None:
        super().__init__()
        self.maps: dict[str, Tensor] = {}
        self._running: list[str] = []

    def enter(self, name: str, _args: tuple[object, ...], _kwargs: dict[str, object]) -> None:
        self._running.append(name)

    def leave(self, _name: str, _output: object) -> None:
        self._running.pop()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func is F.multi_head_attention_forward:
            result = func(*args, **named)
            # Called again for the weights of each head, without dropout, so that rows sum to 1.
            _, weights = func(*args, **named | {"need_weights": True, "average_attn_weights": False, "training": False})
            self._keep(weights if weights.dim() == 4 else weights.unsqueeze(0))
            return result
        if func is F.scaled_dot_product_attention:
            self._keep(_weights(*args, **named))
            return func(*args, **named)
        result = func(*args, **named)
        if func in _SOFTMAX and isinstance(result, Tensor) and result.dim() == 4:
            dim = named.get("dim", args[1] if len(args) > 1 else None)
            if dim in (-1, 3):
                self._keep(result)
        return result

    def _keep(self, weights: Tensor) -> None:
        layer = self._running[-1] if self._running else ""
        self.maps[layer] = weights.detach()[..., :LARGEST, :LARGEST].float().clone()


def _weights(
    query: Tensor,
    key: Tensor,
    _value: Tensor,
    attn_mask: Tensor | None = None,
    _dropout: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    **_options: object,
) -> Tensor:
    """Return the weights by which ``F.scaled_dot_product_attention`` multiplies values: `[n, heads, queries, keys]`."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query.float() @ key.float().transpose(-2, -1) * (scale or 1 / math.sqrt(query.shape[-1]))
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    if attn_mask is not None:
        masked = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if masked else scores + attn_mask
    weights = scores.softmax(-1)
    return weights if weights.dim() == 4 else weights.unsqueeze(0) if weights.dim() == 3 else weights[None, None]
