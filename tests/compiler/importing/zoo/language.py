"""Recurrent networks for sequences, in the idioms of tutorials."""

from __future__ import annotations

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
