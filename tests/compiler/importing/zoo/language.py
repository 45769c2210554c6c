"""Networks for sequences, in the idioms of the papers and tutorials that they come from."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CharRNN(nn.Module):
    """State is passed in and out, and made where there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.width = 2, 6
        self.embed = nn.Embedding(11, 5)
        self.rnn = nn.GRU(5, 6, 2, dropout=0.1)
        self.decoder = nn.Linear(6, 11)

    def init_hidden(self, batch: int, device: torch.device) -> Tensor:
        return torch.zeros(self.layers, batch, self.width, device=device)

    def forward(self, tokens: Tensor, hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if hidden is None:
            hidden = self.init_hidden(tokens.size(1), tokens.device)
        output, hidden = self.rnn(self.embed(tokens), hidden)
        return self.decoder(output), hidden


class WordLM(nn.Module):
    """An LSTM with the weight of the embedding tied to the output, and hidden state as a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(13, 6)
        self.rnn = nn.LSTM(6, 6, 2, dropout=0.2, batch_first=True)
        self.decoder = nn.Linear(6, 13)
        self.decoder.weight = self.encoder.weight

    def init_hidden(self, batch: int) -> tuple[Tensor, Tensor]:
        weight = next(self.parameters())
        return weight.new_zeros(2, batch, 6), weight.new_zeros(2, batch, 6)

    def forward(self, tokens: Tensor) -> Tensor:
        output, _ = self.rnn(self.drop(self.encoder(tokens)), self.init_hidden(tokens.size(0)))
        decoded = self.decoder(self.drop(output)).view(-1, 13)
        return F.log_softmax(decoded, dim=1)


class ManualRNN(nn.Module):
    """A cell called once for every step of the sequence."""

    def __init__(self, steps: int = 4) -> None:
        super().__init__()
        self.steps = steps
        self.cell = nn.LSTMCell(3, 5)
        self.out = nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 5)
        c = torch.zeros(x.size(0), 5)
        outputs = []
        for t in range(self.steps):
            h, c = self.cell(x[:, t], (h, c))
            outputs.append(self.out(h))
        return torch.stack(outputs, dim=1)


class BahdanauAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.Wa = nn.Linear(width, width)
        self.Ua = nn.Linear(width, width)
        self.Va = nn.Linear(width, 1)

    def forward(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 6)
        self.gru = nn.GRU(6, 6, batch_first=True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        output, hidden = self.gru(self.dropout(self.embedding(tokens)))
        return output, hidden


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 6)
        self.attention = BahdanauAttention(6)
        self.gru = nn.GRU(12, 6, batch_first=True)
        self.out = nn.Linear(6, 9)

    def forward(self, encoded: Tensor, hidden: Tensor, target: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        batch = encoded.size(0)
        token = torch.empty(batch, 1, dtype=torch.long, device=encoded.device).fill_(0)
        outputs, attentions = [], []
        for i in range(3):
            output, hidden, weights = self.step(token, hidden, encoded)
            outputs.append(output)
            attentions.append(weights)
            if target is not None:
                token = target[:, i].unsqueeze(1)
            else:
                _, top = output.topk(1)
                token = top.squeeze(-1).detach()
        joined = F.log_softmax(torch.cat(outputs, dim=1), dim=-1)
        return joined, hidden, torch.cat(attentions, dim=1)

    def step(self, token: Tensor, hidden: Tensor, encoded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        embedded = self.embedding(token)
        query = hidden.permute(1, 0, 2)
        context, weights = self.attention(query, encoded)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output), hidden, weights


class Seq2Seq(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, tokens: Tensor, target: Tensor | None = None) -> Tensor:
        encoded, hidden = self.encoder(tokens)
        decoded, _, _ = self.decoder(encoded, hidden, target)
        out: Tensor = decoded
        return out


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


class CausalConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.left = 2 * dilation
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(inputs, outputs, 3, dilation=dilation))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(F.pad(x, (self.left, 0)))
        return out


class WaveNet(nn.Module):
    """Gated dilated convolutions and the sum of their skips."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, 4, 1)
        self.filters = nn.ModuleList([nn.Conv1d(4, 4, 2, dilation=2**i) for i in range(3)])
        self.gates = nn.ModuleList([nn.Conv1d(4, 4, 2, dilation=2**i) for i in range(3)])
        self.skips = nn.ModuleList([nn.Conv1d(4, 3, 1) for _ in range(3)])
        self.end = nn.Conv1d(3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        skip: Any = 0
        for filter, gate, skipping in zip(self.filters, self.gates, self.skips, strict=True):
            z = torch.tanh(filter(x)) * torch.sigmoid(gate(x))
            s = skipping(z)
            try:
                skip = skip[:, :, -s.size(2) :] + s
            except TypeError:
                skip = s
            x = z + x[:, :, -z.size(2) :]
        out: Tensor = self.end(F.relu(skip))
        return out


class TCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(CausalConv(2, 4, 1), nn.ReLU(), nn.Dropout1d(0.1), CausalConv(4, 4, 2))
        self.down = nn.Conv1d(2, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.net(x) + self.down(x))


class TextCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.convs = nn.ModuleList([nn.Conv2d(1, 3, (k, 6)) for k in (2, 3, 4)])
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(9, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens).unsqueeze(1)
        maps = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        pooled = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in maps]
        out: Tensor = self.fc(self.dropout(torch.cat(pooled, 1)))
        return out


class PackedTagger(nn.Module):
    """Sequences of different lengths, packed."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 5)
        self.lstm = nn.LSTM(5, 4, batch_first=True)
        self.out = nn.Linear(4, 3)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        output, _ = self.lstm(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        out: Tensor = self.out(padded)
        return out


class Translation(nn.Module):
    """nn.Transformer with all of its masks, by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8, padding_idx=0)
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)
        self.generator = nn.Linear(8, 10)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        mask = torch.triu(torch.full((tgt.size(1), tgt.size(1)), float("-inf")), diagonal=1)
        padding = src == 0
        out = self.transformer(
            self.embed(src), self.embed(tgt), tgt_mask=mask, src_key_padding_mask=padding.float() * -1e9
        )
        result: Tensor = self.generator(out)
        return result


class GCNLayer(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input: Tensor, adj: Tensor) -> Tensor:
        support = torch.mm(input, self.weight)
        output = torch.mm(adj, support)
        return output + self.bias


class GCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gc1 = GCNLayer(5, 8)
        self.gc2 = GCNLayer(8, 3)
        self.dropout = 0.5

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        x = self.gc2(x, adj)
        return F.log_softmax(x, dim=1)


class MessagePassing(nn.Module):
    """Messages along edges, summed where they arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(8, 6), nn.ReLU())
        self.update = nn.GRUCell(6, 4)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        messages = self.message(torch.cat([x[source], x[target]], dim=-1))
        gathered = torch.zeros(x.size(0), 6).index_add_(0, target, messages)
        out: Tensor = self.update(gathered, x)
        return out


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 6, 1), nn.Conv1d(6, 8, 1)
        self.fc = nn.Linear(8, 9)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        batchsize = x.size()[0]
        y = F.relu(self.conv2(F.relu(self.conv1(x))))
        y = torch.max(y, 2, keepdim=True)[0].view(-1, 8)
        iden = torch.eye(3).view(1, 9).repeat(batchsize, 1)
        rotation = (self.fc(y) + iden).view(-1, 3, 3)
        z = torch.bmm(x.transpose(2, 1), rotation).transpose(2, 1)
        out: Tensor = self.head(F.relu(self.conv2(F.relu(self.conv1(z)))).max(dim=2).values)
        return out


class DeepFM(nn.Module):
    """Features by name in a dictionary, embeddings for each."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = {"user": 5, "item": 7, "hour": 3}
        self.embeddings = nn.ModuleDict({name: nn.Embedding(size, 4) for name, size in self.sizes.items()})
        self.linear = nn.ModuleDict({name: nn.Embedding(size, 1) for name, size in self.sizes.items()})
        self.mlp = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, features: dict[str, Tensor]) -> Tensor:
        vectors = torch.stack([self.embeddings[name](features[name]) for name in self.sizes], dim=1)
        first = sum(self.linear[name](features[name]) for name in self.sizes)
        square = vectors.sum(dim=1).pow(2) - vectors.pow(2).sum(dim=1)
        second = 0.5 * square.sum(dim=1, keepdim=True)
        deep = self.mlp(vectors.flatten(start_dim=1))
        return torch.sigmoid(first + second + deep).squeeze(-1)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.actor, self.critic = nn.Linear(8, 2), nn.Linear(8, 1)
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.body(x)
        mean = self.actor(hidden)
        std = self.log_std.exp().expand_as(mean)
        return mean, std, self.critic(hidden).squeeze(-1)


class Autoregressive(nn.Module):
    """A loop whose end depends on what is drawn: opaque, and honest about it."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        while x.abs().max() > 1:
            x = self.step(x) * 0.1
        return x


class EarlyExit(nn.Module):
    """Only the part that decides by the data is opaque; what stands before and after stays editable."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.loop = Autoregressive()
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.loop(self.stem(x)))
        return out


class Hopfield(nn.Module):
    """Assigns to items and slices of a tensor that it has made."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(x.size(0), 2, 4)
        out[:, 0] = self.lin(x)
        out[:, 1, :2] = x[:, :2] * 2
        out[..., -1] += 1.0
        return out


class LossInside(nn.Module):
    """The loss is a submodule and the target an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ELU(), nn.Linear(8, 3))
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        logits = self.net(x)
        return {"loss": self.loss(logits, y), "accuracy": (logits.argmax(-1) == y).float().mean()}
