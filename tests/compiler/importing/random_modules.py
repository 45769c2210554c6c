"""Random modules, and a comparison of what the import of one compiles to with the module itself.

Each is source that a seed determines: nested and shared blocks, control flow on sizes and modes, changes in place, views,
buffers, keyword arguments, constants, random numbers. ``scripts/import_fuzz.py`` tries thousands.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import copied, difference
from pnne_nb.compiler.analysis.verify import key_prefix
from pnne_nb.compiler.importing.translation.emit_ops import UNCALLED
from tests.compiler.importing.random_statements import (
    LATER_CALLS,
    LATER_CONDITIONS,
    LATER_ENDS,
    LATER_INIT,
    LATER_METHODS,
    LATER_PRELUDE,
    LATER_STATE,
    LATER_TENSOR,
)

WIDTH = 4
"""Columns of every value `[n, WIDTH]` in a random module."""

_IMPORTS = """
import dataclasses, math, torch
import torch.utils.checkpoint
import torch.nn.functional as F
from torch import nn
"""

_TENSOR = (
    "{v} = {a} + {b}",
    "{v} = {a} * self.scale",
    "{v} = {a} - self.table",
    "{v} = {a} @ self.weight",
    "{v} = F.relu({a})",
    "{v} = torch.tanh({a}).mul_({c})",
    "{v} = {a}.clone()\n{v}[:, {i}] = {c}",
    "{v} = {a}.clone()\n{v}[:, :2].mul_({c})",
    "{v} = {a} * 1\npart = {v}[:, {i}]\npart += {b}[:, 0]",
    "{v} = {a}.view({a}.shape[0], 2, -1).transpose(1, 2).reshape({a}.size(0), -1)",
    "{v} = {a}.reshape(-1, {a}.shape[-1] // 2).mean(0).repeat(2) + {b}",
    "{v} = torch.cat(list(reversed({a}.chunk(2, dim=1))), dim=-1)",
    "{v} = torch.stack([each * k for k, each in enumerate({a}.unbind(1))], 1)",
    "{v} = F.dropout({a}, {p}, self.training)",
    "{v} = {a} + torch.rand_like({a})",
    "{v} = {a} + torch.randn({a}.shape[0], 1) * {c}",
    "{v} = {a} * torch.tensor([1.0, 2.0, 3.0, {c}])",
    "{v} = {a} + torch.arange({a}.shape[1], dtype={a}.dtype)",
    "{v} = {a} + torch.arange(len({a})).unsqueeze(1)",
    "{v} = torch.where({a} > {c}, {a}, {b})",
    "{v} = {a} / math.sqrt({a}.shape[1])",
    "{v} = {a} * int({a}.shape[0] * 0.5)",
    "{v} = {a} * {a}.shape[0] ** -0.5",
    "{v} = {a}.masked_fill({b} > {c}, 0)",
    "{v} = {a}.double().softmax(-1).to({a}.dtype)",
    "{v} = {a}.to(self.weight.dtype) + {a}.new_ones({a}.shape)",
    "{v} = {a}.max(1, keepdim=True).values + {b}",
    "top, place = {a}.topk(2, dim=1)\n{v} = {b}.scatter(1, place, top)",
    "{v} = {a} + sum(p.sum() for p in self.parameters(recurse=False))",
    "{v} = F.layer_norm({a}, {a}.shape[1:])",
    "{v} = {a}.detach() * {b}",
    "{v} = {a} + {a}.numel() // {a}.dim()",
    "{v} = torch.einsum('ij,kj->ik', {a}, self.weight.abs() + self.table)",
    "{v} = {a}.gather(1, {b}.argsort(1))",
    "{v} = {a} * FACTOR",
    "{v} = helper({a}, {b})",
    "{v} = helper({a}, y={b}, twice={a}.shape[0] > 2)",
)
"""Statements that make a value `v` of values `a` and `b`."""

_CALLS = (
    "{v} = self.{m}({a})",
    "{v} = self.{m}({a}) + self.{m}({b})",
    "{v} = self.{m}({a}, gain={c})",
    "{v} = self.{m}({a}, other={b})",
    "{v} = self.{m}(x={a}, other=None)",
    "with torch.no_grad():\n    {v} = self.{m}({a})",
    "{v} = {a}\nfor _ in range({i}):\n    {v} = self.{m}({v})",
    "{v} = torch.utils.checkpoint.checkpoint(self.{m}, {a}, use_reentrant=False)",
    "{v} = [self.{m}(each) for each in ({a}, {b})][{i} % 2]",
)
"""Statements that call a submodule `m`."""

_LAYERS = ("linear", "norm", "batch", "drop")

_STATE = (
    "self.count.add_(1)\n{v} = {a} * self.count",
    "self.mean = 0.5 * self.mean + {a}.detach().mean(0)\n{v} = {a} - self.mean",
    "self.mean.mul_(0.5).add_({a}.mean(0).detach())\n{v} = {a} + self.mean",
    "self.memory = 0.5 * self.memory + {a}.mean(0)\n{v} = {a} + self.memory",
    "if self.training:\n    self.mean += {a}.detach().sum(0)\n{v} = {a} * self.mean",
    "self.last = {a}\n{v} = {a} + 1",
    "self.calls += 1\n{v} = {a} * self.calls",
    "self.seen.append({a}.detach())\n{v} = {a} + len(self.seen)",
    "{v} = {a} * self.factors[{i}]",
)
"""Statements that read or change what the module keeps."""

_CONDITIONS = (
    "{a}.shape[0] > {i}",
    "{a}.shape[0] % 2 == 0",
    "{a}.size(1) == 4 and {a}.shape[0] != {i}",
    "self.training",
    "not self.training and {a}.shape[0] > 1",
    "{a}.dim() == 2",
    "{a}.requires_grad",
    "torch.is_grad_enabled()",
    "{a}.dtype == torch.float32",
    "{a}.dtype in (torch.float16, torch.float64)",
    "{a}.device.type == 'cpu'",
    "other is None",
    "gain > 1",
    "{a}.sum() > {c}",
    "self.flag",
    "isinstance({a}, torch.Tensor) and {a}.is_floating_point()",
    "torch.all(torch.arange({a}.shape[0]) >= 0)",
)
"""Conditions of branches."""

_PRELUDE = """
FACTOR = 1.5

def helper(x, y, twice=False):
    if twice:
        return x * 2 + y
    return x - y

@dataclasses.dataclass
class Result{seed}:
    value: torch.Tensor
    extra: tuple = ()
"""

_INIT = """
class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 4))
        self.weight = nn.Parameter(torch.linspace(-1, 1, 16).reshape(4, 4))
        self.register_buffer("table", torch.linspace(0, 1, 4))
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("memory", torch.zeros(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.batch = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.25)
        self.factors = [0.5, 1.0, 2.0, -1.0]
        self.flag = {flag}
        self.calls = 0
        self.seen = []
"""


LATER = 100_000
"""The first seed whose modules also have what follows; those before make what they always made."""


class Outcome(NamedTuple):
    """What became of one random module.

    Attributes:
        kind: ``"open"``, ``"closed"`` in part or as a whole, ``"refused"``, ``"unusable"`` if the module itself takes no
            example, or ``"wrong"``.
        said: The reason, or what differs.
    """

    kind: str
    said: str = ""


_TENSORS = (_TENSOR, LATER_TENSOR)


@dataclass
class _Writer:
    """Writes the ``forward`` of one class.

    Attributes:
        draw: Random choices.
        blocks: Attributes that hold blocks of other random classes.
        values: Variables so far.
        later: Whether the code has what only later seeds have.
    """

    draw: random.Random
    blocks: list[str]
    values: list[str]
    later: bool = False

    def body(self, statements: int, depth: int = 0) -> Iterator[str]:
        for _ in range(statements):
            choice = self.draw.random()
            if choice < 0.15 and depth < 2:
                yield from self._branch(depth)
                continue
            kinds = (_CALLS, LATER_CALLS) if choice < 0.4 else (_STATE, LATER_STATE) if choice < 0.48 else _TENSORS
            yield from self._statement(self._kind(kinds))

    def _kind(self, kinds: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[str, ...]:
        return kinds[self.later and self.draw.random() < 0.7]

    def _branch(self, depth: int) -> Iterator[str]:
        loop = self.draw.random() < 0.2
        known = list(self.values)
        target = self.draw.choice(known)
        condition = (
            f"for _ in range({target}.shape[0] // 2):"
            if loop
            else f"if {self._filled(self.draw.choice(self._kind((_CONDITIONS, LATER_CONDITIONS))))}:"
        )
        yield condition
        for branch in range(1 if loop or self.draw.random() < 0.5 else 2):
            if branch:
                yield "else:"
            self.values = list(known)
            lines = list(self.body(self.draw.randint(1, 2), depth + 1))
            yield from (f"    {line}" for line in (*lines, f"{target} = {self.values[-1]}"))
        self.values = known

    def _statement(self, kind: tuple[str, ...]) -> Iterator[str]:
        name = f"v{len(self.values)}"
        module = (
            self.draw.choice(self.blocks) if self.blocks and self.draw.random() < 0.7 else self.draw.choice(_LAYERS)
        )
        text = self.draw.choice(kind)
        if module in _LAYERS and any(word in text for word in ("gain", "other", "{a}, {b}, {c}")):
            text = _CALLS[0]
        yield from self._filled(text, v=name, m=module).split("\n")
        self.values.append(name)

    def _filled(self, text: str, **names: str) -> str:
        recent = self.values[-3:]
        return text.format(
            a=self.draw.choice(recent), b=self.draw.choice(recent), c=self.draw.choice(("0.5", "-1.0", "2", "0.0")),
            i=self.draw.randint(0, 3), p=self.draw.choice(("0.0", "0.5")), **names,
        )  # fmt: skip


def source_of(seed: int) -> str:
    """Return the source of the random module of a seed; its outermost class is ``Net``."""
    draw = random.Random(seed)
    text = _PRELUDE.replace("{seed}", str(seed)) + (LATER_PRELUDE if seed >= LATER else "")
    names: list[str] = []
    for index in range(draw.randint(1, 3)):
        names.append(f"Block{index}")
        text += _class(draw, names[-1], names[:-1], later=seed >= LATER)
    return text + _class(draw, "Net", names, seed=seed, later=seed >= LATER)


def _class(draw: random.Random, name: str, others: list[str], seed: int | None = None, *, later: bool) -> str:
    text = _INIT.format(name=name, flag=draw.random() < 0.5) + (LATER_INIT if later else "")
    blocks: list[str] = []
    for other in draw.choices(others, k=draw.randint(0, 2)) if others else ():
        blocks.append(f"block{len(blocks)}")
        text += f"        self.{blocks[-1]} = {other}()\n"
    if blocks and draw.random() < 0.3:
        text += f"        self.tied = self.{blocks[0]}\n"
        blocks.append("tied")
    if later and draw.random() < 0.4:
        text += f"        {draw.choice(LATER_ENDS)}\n"
    writer = _Writer(draw, blocks, ["x"], later)
    lines = ["x = x * 1", "if other is not None:", "    x = x + other", *writer.body(draw.randint(1, 5))]
    last = writer.values[-1]
    results = [last] if seed is None else [last, f"({last}, x)", f"{{'y': {last}}}", f"Result{seed}({last}, (x,))"]
    lines.append(f"return {draw.choice(results)}")
    body = "\n".join(f"        {line}" for line in lines)
    text += LATER_METHODS if later else ""
    first = draw.choice(("x = x * gain", "x *= gain", "x = x + 0 * gain")) if later else "x = x * gain"
    return f"{text}\n    def forward(self, x, other=None, gain=1.0):\n        {first}\n{body}\n"


def modules_of(seed: int) -> AbstractContextManager[Callable[[], nn.Module]]:
    """Yield what makes the random module of a seed, always with the same weights."""
    return modules_from(f"random_module_{seed}", seed, _IMPORTS, source_of(seed))


@contextmanager
def modules_from(name: str, seed: int, *texts: str) -> Iterator[Callable[[], nn.Module]]:
    """Yield what makes the ``Net`` of some source in a module of that name, always with the same weights."""
    home = ModuleType(name)
    sys.modules[home.__name__] = home
    for text in texts:
        exec(compile(text, f"<seed {seed}>", "exec"), vars(home))

    def make() -> nn.Module:
        torch.manual_seed(seed)
        made: nn.Module = vars(home)["Net"]()
        return made

    try:
        yield make
    finally:
        del sys.modules[home.__name__]


def outcome_of(seed: int) -> Outcome:
    """Import the random module of a seed, and compare."""
    with modules_of(seed) as make:
        x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(seed))
        try:
            graph = pn.from_module(make(), x)
        except pn.CompileError as error:
            try:
                make().eval()(x)
            except Exception as own:  # noqa: BLE001  # whatever it raises
                return Outcome("unusable", str(own))
            return Outcome("refused", str(error))
        closed = [
            node.origin.reason
            for inner in graph.graphs.values()
            for node in inner.nodes.values()
            if node.origin is not None and node.origin.proof == "opaque" and node.origin.reason != UNCALLED
        ]
        wrong = next(filter(None, (_differs(make, graph, trial) for trial in _trials())), "")
    if wrong:
        return Outcome("wrong", wrong)
    return Outcome("closed", closed[0]) if closed else Outcome("open")


class _Trial(NamedTuple):
    rows: int
    training: bool
    dtype: torch.dtype
    wanted: bool  # gradients of the inputs
    recorded: bool  # gradients at all


def _trials() -> Iterator[_Trial]:
    for training in (True, False):
        yield _Trial(4, training, torch.float32, wanted=True, recorded=True)
        yield _Trial(4, training, torch.float32, wanted=False, recorded=False)
        for rows in (1, 2, 3, 5, 8):
            yield _Trial(rows, training, torch.float32, wanted=False, recorded=True)
        yield _Trial(4, training, torch.float64, wanted=True, recorded=True)
        yield _Trial(3, training, torch.bfloat16, wanted=False, recorded=True)


def _differs(make: Callable[[], nn.Module], graph: pn.NodeGraph, trial: _Trial) -> str:
    net = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pn.compile(graph, reuse=net)
    draw = torch.Generator().manual_seed(trial.rows)
    xs = [torch.randn(trial.rows, WIDTH, generator=draw).to(trial.dtype) for _ in range(3)]
    found = [
        _run(
            each.train(trial.training).to(trial.dtype), [x.requires_grad_(trial.wanted) for x in copied(xs)], trial, key
        )
        for each, key in ((net, ""), (model, key_prefix(graph)))
    ]
    (mine, error), (theirs, refusal) = found
    if error is not None:
        return "" if refusal is not None else f"{trial}: accepts what the module refuses: {error}"
    if refusal is not None:
        is_said = isinstance(refusal, pn.ExecutionError) and "import again" in str(refusal)
        return "" if is_said else f"{trial}: fails: {type(refusal).__name__}: {refusal}"
    detail = difference(mine, theirs)
    return f"{trial}: {detail}" if detail else ""


def _run(module: nn.Module, xs: list[Tensor], trial: _Trial, prefix: str) -> tuple[Any, Exception | None]:
    """Call a module three times, with one backward pass over all, and return everything that can be seen of it."""
    torch.manual_seed(7)
    context: Callable[[], Any] = nullcontext if trial.recorded else torch.no_grad
    try:
        with context():
            results = [module(x) for x in xs]
        called = {name.removeprefix(prefix): value.detach().clone() for name, value in module.state_dict().items()}
        losses = [leaf.double().square().sum() for leaf in _tensors(results) if leaf.requires_grad]
        refused = ""
        if losses:
            try:
                torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]  # torch does not say
            except RuntimeError:
                refused = "the backward pass fails"
    except Exception as error:  # noqa: BLE001  # whatever it raises
        return None, error
    found = {"results": results, "state": called, "refused": refused}
    if not refused:  # how far a backward pass has come that fails means nothing, as what it has computed again
        found["state after"] = {name.removeprefix(prefix): value for name, value in module.state_dict().items()}
        found["grads"] = {name.removeprefix(prefix): parameter.grad for name, parameter in module.named_parameters()}
        found["inputs"] = [x.grad for x in xs]
    return found, None


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif hasattr(value, "__dict__"):
        yield from _tensors(list(vars(value).values()))
