"""Language models in the manner of the libraries that share them: configurations, caches, results with fields."""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

logger = logging.getLogger(__name__)


class ModelOutput(OrderedDict[Any, Any]):
    def __post_init__(self) -> None:
        for f in fields(self):  # type: ignore[arg-type]  # its subclasses are data classes
            v = getattr(self, f.name)
            if v is not None:
                self[f.name] = v

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, str):
            return dict(self.items())[k]
        return self.to_tuple()[k]

    def to_tuple(self) -> Any:
        return tuple(self[k] for k in self.keys())


@dataclass
class BaseOutput(ModelOutput):
    last_hidden_state: Tensor | None = None
    past_key_values: tuple[Any, ...] | None = None
    hidden_states: tuple[Any, ...] | None = None
    attentions: tuple[Any, ...] | None = None


@dataclass
class CausalOutput(ModelOutput):
    loss: Tensor | None = None
    logits: Tensor | None = None
    past_key_values: tuple[Any, ...] | None = None
    hidden_states: tuple[Any, ...] | None = None


@dataclass
class Config:
    vocab_size: int = 19
    hidden_size: int = 8
    num_heads: int = 2
    num_layers: int = 2
    use_cache: bool = True
    output_attentions: bool = False
    output_hidden_states: bool = True
    use_return_dict: bool = True
    gradient_checkpointing: bool = False
    act: str = "gelu"
    attn: str = "eager"


ACTIVATIONS: dict[str, Any] = {
    "gelu": nn.GELU(),
    "relu": nn.ReLU(),
    "new": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3)))),
}


def eager_attention(
    module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: Any, dropout: Any = 0.0, **kwargs: Any
) -> Any:
    w = torch.matmul(q, k.transpose(2, 3)) * scaling
    if mask is not None:
        w = w + mask[:, :, :, : k.shape[-2]]
    w = F.softmax(w, dim=-1, dtype=torch.float32).to(q.dtype)
    w = F.dropout(w, p=dropout, training=module.training)
    return (torch.matmul(w, v).transpose(1, 2).contiguous(), w)


def sdpa_attention(
    module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: Any, dropout: Any = 0.0, **kwargs: Any
) -> Any:
    o = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout if module.training else 0.0, scale=scaling
    )
    return (o.transpose(1, 2).contiguous(), None)


ATTENTIONS = {"eager": eager_attention, "sdpa": sdpa_attention}


class DynamicCache:
    def __init__(self) -> None:
        self.key_cache: list[Any] = []
        self.value_cache: list[Any] = []

    def update(self, k: Any, v: Any, layer_idx: Any) -> Any:
        if len(self.key_cache) <= layer_idx:
            self.key_cache.append(k)
            self.value_cache.append(v)
        else:
            self.key_cache[layer_idx] = torch.cat([self.key_cache[layer_idx], k], dim=-2)
            self.value_cache[layer_idx] = torch.cat([self.value_cache[layer_idx], v], dim=-2)
        return (self.key_cache[layer_idx], self.value_cache[layer_idx])

    def get_seq_length(self, layer_idx: Any = 0) -> Any:
        return self.key_cache[layer_idx].shape[-2] if len(self.key_cache) > layer_idx else 0


class CachedAttention(nn.Module):
    def __init__(self, config: Any, layer_idx: Any) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_heads
        self.scaling = self.head_dim ** (-0.5)
        self.attention_dropout = 0.1
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(
        self,
        hidden_states: Any,
        attention_mask: Any = None,
        past_key_values: Any = None,
        cache_position: Any = None,
        **kwargs: Any,
    ) -> Any:
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, -1, self.head_dim)
        q = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        fn = eager_attention
        if self.config.attn != "eager":
            fn = ATTENTIONS[self.config.attn]
        out, w = fn(
            self,
            q,
            k,
            v,
            attention_mask,
            dropout=0.0 if not self.training else self.attention_dropout,
            scaling=self.scaling,
            **kwargs,
        )
        out = out.reshape(*input_shape, -1).contiguous()
        return (self.o_proj(out), w)


class FeedForward(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, 16)
        self.fc2 = nn.Linear(16, config.hidden_size)
        self.act_fn: Any = ACTIVATIONS[config.act]

    def forward(self, x: Any) -> Any:
        return self.fc2(self.act_fn(self.fc1(x)))


class DecoderLayer(nn.Module):
    def __init__(self, config: Any, idx: Any) -> None:
        super().__init__()
        self.self_attn = CachedAttention(config, idx)
        self.mlp = FeedForward(config)
        self.ln1 = nn.LayerNorm(config.hidden_size)
        self.ln2 = nn.LayerNorm(config.hidden_size)

    def forward(
        self,
        hidden_states: Any,
        attention_mask: Any = None,
        past_key_values: Any = None,
        output_attentions: Any = False,
        **kwargs: Any,
    ) -> Any:
        residual = hidden_states
        hidden_states = self.ln1(hidden_states)
        hidden_states, w = self.self_attn(
            hidden_states=hidden_states, attention_mask=attention_mask, past_key_values=past_key_values, **kwargs
        )
        hidden_states = residual + hidden_states
        hidden_states = hidden_states + self.mlp(self.ln2(hidden_states))
        outputs: Any = (hidden_states,)
        if output_attentions:
            outputs += (w,)
        return outputs


class Decoder(nn.Module):
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.layers = nn.ModuleList([DecoderLayer(config, i) for i in range(config.num_layers)])
        self.norm = nn.LayerNorm(config.hidden_size)
        self.gradient_checkpointing = config.gradient_checkpointing

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        past_key_values: Any = None,
        inputs_embeds: Any = None,
        use_cache: Any = None,
        output_attentions: Any = None,
        output_hidden_states: Any = None,
        return_dict: Any = None,
        **kw: Any,
    ) -> Any:
        output_attentions = output_attentions if output_attentions is not None else self.config.output_attentions
        output_hidden_states = (
            output_hidden_states if output_hidden_states is not None else self.config.output_hidden_states
        )
        use_cache = use_cache if use_cache is not None else self.config.use_cache
        if (input_ids is None) ^ (inputs_embeds is not None):
            raise ValueError("You must specify exactly one of input_ids or inputs_embeds")
        if self.gradient_checkpointing and self.training and use_cache:
            print("use_cache=True is incompatible")
            use_cache = False
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        cache_position = torch.arange(past, past + inputs_embeds.shape[1], device=inputs_embeds.device)
        mask = self._update_causal_mask(attention_mask, inputs_embeds, cache_position, past)
        hidden_states = inputs_embeds
        all_hidden: Any = () if output_hidden_states else None
        all_att: Any = () if output_attentions else None
        for layer in self.layers[: self.config.num_layers]:
            if output_hidden_states:
                all_hidden += (hidden_states,)
            more = {"past_key_values": past_key_values, "output_attentions": output_attentions, **kw}
            if self.gradient_checkpointing and self.training:
                out = checkpoint(partial(layer.__call__, **more), hidden_states, mask, use_reentrant=False)
            else:
                out = layer(hidden_states, attention_mask=mask, **more)
            hidden_states = out[0]
            if output_attentions:
                all_att += (out[1],)
        hidden_states = self.norm(hidden_states)
        if output_hidden_states:
            all_hidden += (hidden_states,)
        pkv = None
        if use_cache:
            pkv = tuple(zip(past_key_values.key_cache, past_key_values.value_cache, strict=False))
        return BaseOutput(
            last_hidden_state=hidden_states, past_key_values=pkv, hidden_states=all_hidden, attentions=all_att
        )

    def _update_causal_mask(self, attention_mask: Any, x: Any, cache_position: Any, past: Any) -> Any:
        dtype, device = (x.dtype, x.device)
        min_dtype = torch.finfo(dtype).min
        T = x.shape[1]
        target = past + T
        m = torch.full((T, target), fill_value=min_dtype, dtype=dtype, device=device)
        if T != 1:
            m = torch.triu(m, diagonal=1)
        m *= torch.arange(target, device=device) > cache_position.reshape(-1, 1)
        m = m[None, None, :, :].expand(x.shape[0], 1, -1, -1)
        if attention_mask is not None:
            m = m.clone()
            n = attention_mask.shape[-1]
            pad = m[:, :, :, :n] + attention_mask[:, None, None, :].to(m.device)
            pad = pad == 0
            m[:, :, :, :n] = m[:, :, :, :n].masked_fill(pad, min_dtype)
        return m


class CausalLM(nn.Module):
    def __init__(self, **over: Any) -> None:
        super().__init__()
        config = Config(**over)
        self.config = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight

    def loss_function(self, logits: Any, labels: Any, vocab_size: Any, **kw: Any) -> Any:
        logits = logits.float()
        labels = F.pad(labels, (0, 1), value=-100)
        shift = labels[..., 1:].contiguous()
        return F.cross_entropy(logits.view(-1, vocab_size), shift.view(-1).to(logits.device), ignore_index=-100)

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        labels: Any = None,
        logits_to_keep: Any = 0,
        **kwargs: Any,
    ) -> Any:
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        h = out.last_hidden_state
        sl = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(h[:, sl, :])
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalOutput(
            loss=loss, logits=logits, past_key_values=out.past_key_values, hidden_states=out.hidden_states
        )


class RelativeBias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(8, 2)

    @staticmethod
    def bucket(rel: Any, bidirectional: Any = True, num: Any = 8, maxd: Any = 16) -> Any:
        r: Any = 0
        if bidirectional:
            num //= 2
            r += (rel > 0).to(torch.long) * num
            rel = torch.abs(rel)
        else:
            rel = -torch.min(rel, torch.zeros_like(rel))
        me = num // 2
        small = rel < me
        large = me + (torch.log(rel.float() / me) / math.log(maxd / me) * (num - me)).to(torch.long)
        large = torch.min(large, torch.full_like(large, num - 1))
        r += torch.where(small, rel, large)
        return r

    def forward(self, q: Any, k: Any, device: Any = None) -> Any:
        if device is None:
            device = self.emb.weight.device
        c = torch.arange(q, dtype=torch.long, device=device)[:, None]
        m = torch.arange(k, dtype=torch.long, device=device)[None, :]
        v = self.emb(self.bucket(m - c))
        return v.permute([2, 0, 1]).unsqueeze(0)


class BucketedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = RelativeBias()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        b, t, _ = x.size()
        q, k, v = self.qkv(x).chunk(3, -1)

        def shape(s: Any) -> Any:
            return s.view(b, -1, 2, 4).transpose(1, 2)

        def unshape(s: Any) -> Any:
            return s.transpose(1, 2).contiguous().view(b, -1, 8)

        s = torch.matmul(shape(q), shape(k).transpose(3, 2)) + self.bias(t, t)
        return unshape(s.softmax(-1) @ shape(v))
