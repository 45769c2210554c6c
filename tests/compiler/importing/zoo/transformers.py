"""Transformers and mixtures of experts, in the idioms of the papers and libraries that they come from."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PositionalEncoding(nn.Module):
    pe: Tensor

    def __init__(self, width: int, length: int = 20) -> None:
        super().__init__()
        self.dropout = nn.Dropout(p=0.1)
        position = torch.arange(length).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        pe = torch.zeros(length, 1, width)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.pe[: x.size(0)]
        out: Tensor = self.dropout(x)
        return out


class TransformerLM(nn.Module):
    """As in PyTorch's tutorial: a stock encoder under a causal mask of the input's length."""

    def __init__(self) -> None:
        super().__init__()
        self.d_model = 8
        self.pos_encoder = PositionalEncoding(8)
        self.embedding = nn.Embedding(15, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1)
        self.transformer_encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.linear = nn.Linear(8, 15)

    def forward(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        src = self.pos_encoder(self.embedding(src) * math.sqrt(self.d_model))
        if src_mask is None:
            src_mask = nn.Transformer.generate_square_subsequent_mask(len(src)).to(src.device)
        out: Tensor = self.linear(self.transformer_encoder(src, src_mask))
        return out


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x: Tensor) -> Tensor:
        output = self._norm(x.float()).type_as(x)
        return output * self.weight


def precompute_freqs_cis(dim: int, end: int) -> Tensor:
    freqs = 1.0 / (10000.0 ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    angles = torch.outer(torch.arange(end), freqs).float()
    return torch.polar(torch.ones_like(angles), angles)


def reshape_for_broadcast(freqs_cis: Tensor, x: Tensor) -> Tensor:
    ndim = x.ndim
    assert ndim > 1
    assert freqs_cis.shape == (x.shape[1], x.shape[-1])
    shape = [d if i == 1 or i == ndim - 1 else 1 for i, d in enumerate(x.shape)]
    return freqs_cis.view(*shape)


def apply_rotary(xq: Tensor, xk: Tensor, freqs_cis: Tensor) -> tuple[Tensor, Tensor]:
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = reshape_for_broadcast(freqs_cis, xq_)
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
    b, t, heads, dim = x.shape
    if n_rep == 1:
        return x
    return x[:, :, :, None, :].expand(b, t, heads, n_rep, dim).reshape(b, t, heads * n_rep, dim)


@dataclass
class LlamaConfig:
    dim: int = 8
    heads: int = 4
    kv_heads: int = 2
    vocab: int = 17
    length: int = 12
    layers: int = 2


class LlamaAttention(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads = config.heads, config.kv_heads
        self.n_rep = config.heads // config.kv_heads
        self.head_dim = config.dim // config.heads
        self.wq = nn.Linear(config.dim, config.heads * self.head_dim, bias=False)
        self.wk = nn.Linear(config.dim, config.kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(config.dim, config.kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(config.heads * self.head_dim, config.dim, bias=False)

    def forward(self, x: Tensor, freqs_cis: Tensor, mask: Tensor | None) -> Tensor:
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq = xq.view(bsz, seqlen, self.heads, self.head_dim)
        xk = xk.view(bsz, seqlen, self.kv_heads, self.head_dim)
        xv = xv.view(bsz, seqlen, self.kv_heads, self.head_dim)
        xq, xk = apply_rotary(xq, xk, freqs_cis)
        xk, xv = repeat_kv(xk, self.n_rep), repeat_kv(xv, self.n_rep)
        xq, keys, values = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        out: Tensor = self.wo(output)
        return out


class LlamaBlock(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention = LlamaAttention(config)
        self.feed_forward = SwiGLU(config.dim, 2 * config.dim)
        self.attention_norm = RMSNorm(config.dim)
        self.ffn_norm = RMSNorm(config.dim)

    def forward(self, x: Tensor, freqs_cis: Tensor, mask: Tensor | None) -> Tensor:
        h = x + self.attention(self.attention_norm(x), freqs_cis, mask)
        out: Tensor = h + self.feed_forward(self.ffn_norm(h))
        return out


class SwiGLU(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.w2(F.silu(self.w1(x)) * self.w3(x))
        return out


class Llama(nn.Module):
    freqs_cis: Tensor

    def __init__(self) -> None:
        super().__init__()
        config = LlamaConfig()
        self.config = config
        self.tok_embeddings = nn.Embedding(config.vocab, config.dim)
        self.layers = nn.ModuleList()
        for _ in range(config.layers):
            self.layers.append(LlamaBlock(config))
        self.norm = RMSNorm(config.dim)
        self.output = nn.Linear(config.dim, config.vocab, bias=False)
        self.register_buffer("freqs_cis", precompute_freqs_cis(config.dim // config.heads, config.length))

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        _, seqlen = tokens.shape
        h = self.tok_embeddings(tokens)
        freqs_cis = self.freqs_cis[start : start + seqlen]
        mask = None
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=tokens.device)
            mask = torch.triu(mask, diagonal=1).type_as(h)
        for layer in self.layers:
            h = layer(h, freqs_cis, mask)
        out: Tensor = self.output(self.norm(h)).float()
        return out


class RotaryEmbedding(nn.Module):
    inv_freq: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        inv_freq = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        freqs = (inv_freq @ position_ids[:, None, :].float()).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(dtype=x.dtype), emb.sin().to(dtype=x.dtype)


def rotate_half(x: Tensor) -> Tensor:
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


@dataclass
class LMOutput:
    logits: Tensor
    loss: Tensor | None = None


class RotaryGPT(nn.Module):
    """cos and sin computed on the way, fused attention that is causal, a data class as result."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.rotary = RotaryEmbedding(4)
        self.qkv = nn.Linear(8, 24)
        self.proj = nn.Linear(8, 8)
        self.norm = nn.RMSNorm(8)
        self.p = 0.1

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, return_dict: bool = True) -> Any:
        b, t = input_ids.shape
        x = self.embed(input_ids)
        position_ids = torch.arange(t, device=input_ids.device).unsqueeze(0)
        cos, sin = self.rotary(x, position_ids)
        q, k, v = (each.view(b, t, 2, 4).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, dim=-1))
        q = (q * cos.unsqueeze(1)) + (rotate_half(q) * sin.unsqueeze(1))
        k = (k * cos.unsqueeze(1)) + (rotate_half(k) * sin.unsqueeze(1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0, is_causal=t > 1)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, -1))
        logits = F.linear(x, self.embed.weight)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[..., :-1, :].reshape(-1, 12), labels[..., 1:].reshape(-1))
        if not return_dict:
            return (logits,) if loss is None else (loss, logits)
        return LMOutput(logits=logits, loss=loss)


class TokenClassifierOutput(NamedTuple):
    logits: Tensor
    hidden: tuple[Tensor, ...]


class BertEmbeddings(nn.Module):
    position_ids: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(14, 8, padding_idx=0)
        self.position_embeddings = nn.Embedding(10, 8)
        self.token_type_embeddings = nn.Embedding(2, 8)
        self.LayerNorm = nn.LayerNorm(8, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("position_ids", torch.arange(10).expand((1, -1)))

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        input_shape = input_ids.size()
        seq_length = input_shape[1]
        position_ids = self.position_ids[:, :seq_length]
        if token_type_ids is None:
            token_type_ids = torch.zeros(input_shape, dtype=torch.long, device=self.position_ids.device)
        embeddings = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        embeddings += self.position_embeddings(position_ids)
        out: Tensor = self.dropout(self.LayerNorm(embeddings))
        return out


class BertSelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads, self.head_size = 2, 4
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        new_shape = x.size()[:-1] + (self.heads, self.head_size)  # noqa: RUF005  # as the original has it
        return x.view(new_shape).permute(0, 2, 1, 3)

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        q = self.transpose_for_scores(self.query(hidden))
        k = self.transpose_for_scores(self.key(hidden))
        v = self.transpose_for_scores(self.value(hidden))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_size)
        if mask is not None:
            scores = scores + mask
        probs = self.dropout(nn.functional.softmax(scores, dim=-1))
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        context = context.view(context.size()[:-2] + (8,))  # noqa: RUF005  # as the original has it
        return (context, probs)


class BertLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = BertSelfAttention()
        self.output = nn.Sequential(
            OrderedDict([("dense", nn.Linear(8, 16)), ("act", nn.GELU()), ("out", nn.Linear(16, 8))])
        )
        self.norm = nn.LayerNorm(8)

    def forward(self, hidden: Tensor, mask: Tensor | None = None, output_attentions: bool = False) -> tuple[Any, ...]:
        attended = self.attention(hidden, mask)
        layer_output = self.norm(attended[0] + hidden)
        layer_output = layer_output + self.output(layer_output)
        outputs = (layer_output,)
        return outputs + attended[1:] if output_attentions else outputs


class Bert(nn.Module):
    """Extended masks, hidden states collected in a tuple, a named tuple as result, keyword arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = BertEmbeddings()
        self.layer = nn.ModuleList([BertLayer() for _ in range(2)])
        self.classifier = nn.Linear(8, 3)

    def get_extended_attention_mask(self, mask: Tensor, dtype: torch.dtype) -> Tensor:
        if mask.dim() == 3:
            extended = mask[:, None, :, :]
        elif mask.dim() == 2:
            extended = mask[:, None, None, :]
        else:
            raise ValueError(f"Wrong shape for attention_mask (shape {mask.shape})")
        extended = extended.to(dtype=dtype)
        return (1.0 - extended) * torch.finfo(dtype).min

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> TokenClassifierOutput:
        if input_ids is not None and inputs_embeds is not None:
            raise ValueError("You cannot specify both input_ids and inputs_embeds at the same time")
        if input_ids is None:
            raise ValueError("You have to specify input_ids")
        if attention_mask is None:
            attention_mask = torch.ones(input_ids.size(), device=input_ids.device)
        x = self.embeddings(input_ids, token_type_ids=token_type_ids)
        extended = self.get_extended_attention_mask(attention_mask, x.dtype)
        states: tuple[Tensor, ...] = ()
        for _, layer in enumerate(self.layer):
            states = (*states, x)
            x = layer(x, extended, output_attentions=True)[0]
        return TokenClassifierOutput(self.classifier(x), (*states, x))


class T5Attention(nn.Module):
    """Relative positions in buckets, computed in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.relative_attention_bias = nn.Embedding(8, 2)
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8, bias=False) for _ in range(4))

    @staticmethod
    def bucket(relative: Tensor, buckets: int = 8, distance: int = 16) -> Tensor:
        buckets //= 2
        result: Tensor = (relative > 0).to(torch.long) * buckets
        relative = torch.abs(relative)
        exact = buckets // 2
        small = relative < exact
        large = exact + (torch.log(relative.float() / exact) / math.log(distance / exact) * (buckets - exact)).to(
            torch.long
        )
        large = torch.min(large, torch.full_like(large, buckets - 1))
        result += torch.where(small, relative, large)
        return result

    def compute_bias(self, query: int, key: int) -> Tensor:
        context = torch.arange(query, dtype=torch.long, device=self.relative_attention_bias.weight.device)[:, None]
        memory = torch.arange(key, dtype=torch.long)[None, :]
        values = self.relative_attention_bias(self.bucket(memory - context))
        out: Tensor = values.permute([2, 0, 1]).unsqueeze(0)
        return out

    def forward(self, x: Tensor) -> Tensor:
        b, t = x.shape[:2]

        def shape(states: Tensor) -> Tensor:
            return states.view(b, -1, 2, 4).transpose(1, 2)

        q, k, v = shape(self.q(x)), shape(self.k(x)), shape(self.v(x))
        scores = torch.matmul(q, k.transpose(3, 2))
        scores += self.compute_bias(t, t)
        weights = nn.functional.dropout(
            F.softmax(scores.float(), dim=-1).type_as(scores), p=0.1, training=self.training
        )
        y = torch.matmul(weights, v).transpose(1, 2).contiguous().view(b, -1, 8)
        out: Tensor = self.o(y)
        return out


class Mixture(nn.Module):
    """Which rows an expert gets depends on the data: the smallest honest opaque part is this module."""

    def __init__(self, width: int = 6, experts: int = 3) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)) for _ in range(experts)]
        )

    def forward(self, x: Tensor) -> Tensor:
        flat = x.view(-1, x.shape[-1])
        weights, chosen = torch.topk(self.gate(flat).softmax(-1), 2)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows, which = torch.where(chosen == i)
            if rows.numel() == 0:
                continue
            out[rows] += weights[rows, which, None] * expert(flat[rows])
        return out.view_as(x)


class MoETransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 6)
        self.blocks = nn.ModuleList([nn.ModuleDict({"norm": nn.LayerNorm(6), "moe": Mixture()}) for _ in range(2)])
        self.head = nn.Linear(6, 9)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block["moe"](block["norm"](x))  # type: ignore[index]  # a dictionary of modules
        out: Tensor = self.head(x)
        return out


class SoftMoE(nn.Module):
    """Every expert sees everything: nothing depends on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        weights = self.gate(x).softmax(dim=-1)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return torch.sum(weights.unsqueeze(-2) * outputs, dim=-1)
