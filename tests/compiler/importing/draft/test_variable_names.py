"""An imported network speaks with the names that its author gave: on the nodes, and in the source."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections.abc import Iterator
from typing import Any, final

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.importing.draft.variable_names import RETURNED, parts, stored


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.proj = nn.Linear(16, 16)
        self.heads = 4

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.size()
        q, k, v = self.qkv(x).chunk(3, -1)
        q = q.view(batch, time, self.heads, -1).transpose(1, 2)
        k = k.view(batch, time, self.heads, -1).transpose(1, 2)
        v = v.view(batch, time, self.heads, -1).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        weights = F.softmax(scores, -1)
        out = (weights @ v).transpose(1, 2).reshape(batch, time, width)
        return self.proj(out)  # type: ignore[no-any-return]  # nn.Module says Any


ATTENTION = """        batch, time, width = x.shape
        qkv = self.qkv(x)  # (2, 5, 48)
        q, k, v = torch.chunk(qkv, 3, dim=-1)
        q = q.view(batch, time, 4, -1).transpose(1, 2)  # (2, 4, 5, 4)
        k = k.view(batch, time, 4, -1).transpose(1, 2)  # (2, 4, 5, 4)
        v = v.view(batch, time, 4, -1).transpose(1, 2)  # (2, 4, 5, 4)
        scores = q @ k.transpose(-2, -1)  # (2, 4, 5, 5)
        scores = scores / math.sqrt(width // 4)  # (2, 4, 5, 5)
        weights = F.softmax(scores, dim=-1)  # (2, 4, 5, 5)
        out = weights @ v  # (2, 4, 5, 4)
        out = out.transpose(1, 2)  # (2, 5, 4, 4)
        out = torch.reshape(out, (batch, time, width))  # (2, 5, 16)
        return self.proj(out)  # (2, 5, 16)
"""


def imported(net: nn.Module, *args: Tensor) -> pn.NodeGraph:
    return pn.from_module(net, args)


@pytest.fixture
def attention() -> pn.NodeGraph:
    return imported(Attention(), torch.randn(2, 5, 16))


def test_the_source_speaks_with_the_authors_names(attention: pn.NodeGraph) -> None:
    assert ATTENTION in pn.to_source(attention)


def test_the_names_are_in_the_file(attention: pn.NodeGraph) -> None:
    assert pn.to_source(pn.NodeGraph.from_json(attention.to_json())) == pn.to_source(attention)


def test_nodes_bear_the_names(attention: pn.NodeGraph) -> None:
    assert {name: attention[name].type for name in ("q", "v", "scores", "weights", "time")} == {
        "q": "getitem", "v": "getitem", "scores": "div", "weights": "softmax", "time": "getitem",
    }  # fmt: skip
    assert set(pn.compile(attention, reuse=None).state_dict()) == set(Attention().state_dict())


def test_a_node_that_is_renamed_is_called_so_everywhere(attention: pn.NodeGraph) -> None:
    attention.rename("scores", "logits")
    attention.rename("transpose", "swapped")
    source = pn.to_source(attention)
    assert "logits = logits / math.sqrt(width // 4)" in source
    assert "swapped = q.view(batch, time, 4, -1).transpose(1, 2)" in source
    assert "scores" not in source


def test_what_runs_keeps_no_more_than_it_did(attention: pn.NodeGraph) -> None:
    lines = inspect.getsource(type(pn.compile(attention, reuse=None))).splitlines()
    place = next(number for number, line in enumerate(lines) if "scores = q @ k" in line)
    assert lines[place + 1].strip() == "del q, k"


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.rnn = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def best(self, states: Tensor) -> Tensor:
        best, _ = states.max(dim=1)
        return best

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        embedded = self.embed(tokens)
        mask = mask[:, :, None]
        embedded *= mask
        states, (hidden, _) = self.rnn(embedded)
        pooled = self.best(states)
        gate = torch.sigmoid(hidden[-1])
        mean = pooled * gate
        return self.head(mean)  # type: ignore[no-any-return]  # nn.Module says Any


RECURRENT = """        embedded = self.embed(tokens)  # (2, 5, 8)
        mask = mask[:, :, None]  # (2, 5, 1)
        embedded = embedded.mul_(mask)  # (2, 5, 8)
        states, (hidden, _) = self.rnn(embedded)  # (2, 5, 6), (1, 2, 6), (1, 2, 6)
        best, _ = torch.max(states, dim=1)  # (2, 6), (2, 6) int64
        gate = hidden[-1]  # (2, 6)
        gate = torch.sigmoid(gate)  # (2, 6)
        mean = best * gate  # (2, 6)
        return self.head(mean)  # (2, 3)
"""


def test_several_results_arguments_and_functions_of_its_own() -> None:
    graph = imported(Recurrent(), torch.randint(0, 10, (2, 5)), torch.ones(2, 5))
    assert RECURRENT in pn.to_source(graph)
    # A mean is another node, and the mask an argument.
    assert {"best", "gate", "mul", "getitem", "tokens", "mask"} <= set(graph.nodes)
    assert "mean" not in graph.nodes


class Again(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        residual = x
        x = F.relu(x)
        branch = x * 2
        branch = F.gelu(branch)
        output = x + branch
        self_ = output + residual
        return self_  # noqa: RET504  # its name is what this is about


def test_names_that_do_not_fit_are_left() -> None:
    graph = imported(Again(), torch.randn(2, 3))
    assert list(graph.nodes) == ["x", "relu", "mul", "gelu", "add", "self_", "output"]
    source = pn.to_source(graph)
    # The argument is still needed where the original called something else x.
    assert "relu = F.relu(x)" in source
    assert "output = relu + branch" in source


def test_no_name_in_a_file_becomes_code(attention: pn.NodeGraph) -> None:
    bad = ["__import__", "lambda", "self", "torch", "a; b", "x\n", "π", "super", "exec", "__debug__"]
    document = json.loads(attention.to_json())
    text = json.dumps(document)
    for name in bad:
        hostile = text.replace('{"output": "scores"}', json.dumps({"output": name}))
        assert hostile != text
        source = pn.to_source(pn.NodeGraph.from_json(hostile))
        compile(source, "<shown>", "exec")
        assert "logits" not in source
        assert not re.search(rf"^\s*{re.escape(str(name))} =", source, re.MULTILINE)
    elsewhere = text.replace('{"output": "scores"}', json.dumps({"nowhere": "there"}))
    compile(pn.to_source(pn.NodeGraph.from_json(elsewhere)), "<shown>", "exec")
    no_names: list[object] = [{"output": 3}, {"output": None}, [], "scores", {"output": {"a": 1}}]
    for said in no_names:
        hostile = text.replace('{"output": "scores"}', json.dumps(said))
        with pytest.raises(pn.GraphFileError, match=r"origin\.variables.*Expected"):
            pn.NodeGraph.from_json(hostile)


@final
class Given:
    """Notes what the code stores that uses it."""

    def __init__(self) -> None:
        self.noted: list[object] = []

    def note(self) -> None:
        found = stored(sys._getframe(2))
        self.noted.append("returned" if found is RETURNED else found)

    def __call__(self, *_: object, **__: object) -> Any:
        self.note()
        return self

    def __getitem__(self, _: object) -> Any:
        self.note()
        return self

    def __add__(self, _: object) -> Any:
        self.note()
        return self

    def __iter__(self) -> Iterator[Any]:
        self.note()
        return iter([self] * (parts(sys._getframe(1)) or 1))


def code(give: Any, **options: Any) -> Any:
    a = give()
    a, b = give
    a, (b, c) = give
    a, b, c, d = give
    a = b = give()
    a = give(d, e=c)
    a += give
    a = a + give
    a = give[0]
    a = give(*[a], **options)
    if (w := give()) is None:
        return w
    for each in give:
        a = each
    give()
    a = [give(), b]

    def inner() -> object:
        return cell

    cell = give()
    inner()
    return give()


def test_where_code_stores_what_it_is_given() -> None:
    give = Given()
    code(give)
    assert give.noted == [
        "a", ("a", "b"), ("a", ""), ("b", "c"), ("a", "b", "c", "d"), "a", "a", "a", "a", "a", "a", "w", "", "", "",
        "cell", "returned",
    ]  # fmt: skip
