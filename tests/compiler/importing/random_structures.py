"""Random modules with structured inputs, and calls of them with the same structure, and with another.

Each is source that a seed determines: its ``forward`` takes dicts, lists, tuples, named tuples, ``None``, strings and
numbers around tensors of several element types, and goes through them as people do: keys looked for, loops, ``zip``,
``*rest``, lengths. ``scripts/import_fuzz.py --structures`` tries thousands.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import copied, difference
from tests.compiler.importing.random_modules import Outcome, modules_from

_HOME = "random_structures_home"

_PRELUDE = """
import torch
import torch.nn.functional as F
from collections import namedtuple, OrderedDict
from torch import nn

Pair = namedtuple("Pair", "left right")
Pair.__module__, Pair.__qualname__ = __name__, "Pair"

def scaled(x, a=1.0, b=0.0):
    return x * a + b


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        self.named = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4), "c": nn.Linear(4, 4)})
        self.embed = nn.Embedding(7, 4)
"""

_READS = {
    "tensor": (
        "x = x + {s}",
        "x = x * self.linear({s})",
        "x = x + {s} if {s}.shape[0] > 2 else x - {s}",
        "x = scaled(x, a={n}) + {s}",
        "x = scaled(x, b={n}) * {s}",
    ),
    "ids": ("x = x + self.embed({s})", "x = x + F.one_hot({s} % 4, 4).to(x.dtype)", "x = x + {s}.unsqueeze(1)"),
    "mask": (
        "x = x.masked_fill({s}.unsqueeze(1), {n})",
        "x = torch.where({s}.unsqueeze(1), x, x * {n})",
        "x = x + {s}.sum()",
    ),
    "half": ("x = x + {s}.to(x.dtype)", "x = x + {s}.float()"),
    "none": (
        "x = x if {s} is None else x + {s}",
        "if {s} is not None:\n    x = x * {s}",
        "x = x + (1 if {s} is None else 2)",
    ),
    "text": ('x = torch.relu(x) if {s} == "relu" else torch.tanh(x)', "x = getattr(torch, {s})(x)", "x = x * len({s})"),
    "number": ("x = x * {s}", "for _ in range(int({s})):\n    x = x + 1", "x = x if {s} > 1 else -x"),
    "flag": ("if {s}:\n    x = x * {n}", "x = x + int({s})"),
    "dict": (
        "for key, value in {s}.items():\n    x = x + self.named[key](value)",
        "for value in {s}.values():\n    x = x * 0.5 + value",
        'x = x + {s}["a"]',
        'if "b" in {s}:\n    x = x + self.linear({s}["b"])',
        'extra = {s}.get("c")\nif extra is not None:\n    x = x + extra',
        'x = x + {s}.get("b", x)',
        "x = x * len({s})",
        "x = torch.stack(list({s}.values())).mean(0) + x",
        "for key in sorted({s}):\n    x = x * {n} + {s}[key]",
        "first, *others = {s}\nx = x + {s}[first] * len(others)",
    ),
    "list": (
        "x = x + sum(layer(each) for layer, each in zip(self.layers, {s}))",
        "x = sum([self.linear(each) for each in {s}]) + x",
        "first, *rest = {s}\nx = x + first\nfor each in rest:\n    x = x * each",
        "for place, each in enumerate({s}):\n    x = x + place * each",
        "x = x + {s}[-1] * len({s})",
        "x = torch.cat(tuple({s}), 0).sum(0) + x",
        "x = x + {s}[0] if len({s}) > 2 else x - {s}[0]",
        "x = x + torch.stack(list(reversed({s}))).cumsum(0)[-1]",
        "x = x + max({s}, key=lambda each: each.shape[0])",
    ),
    "pair": (
        "left, right = {s}\nx = x + left * right",
        "x = x + {s}.left - {s}.right",
        "x = x + {s}[0] * {s}._asdict()['right']",
    ),
    "tuple": ("a, (b, c) = {s}\nx = x + a * b - c", "x = x + {s}[1][0]", "x = x * len({s}[1]) + {s}[0]"),
}
"""What is done with a value of each kind: `s` is the expression for it, `n` a number."""

_KINDS = tuple(_READS)


def _value(kind: str, draw: torch.Generator, rows: int) -> Any:
    def floats() -> Tensor:
        return torch.randn(rows, 4, generator=draw)

    def named() -> Any:
        return sys.modules[_HOME].Pair

    made: dict[str, Callable[[], Any]] = {
        "tensor": floats,
        "ids": lambda: torch.randint(0, 7, (rows,), generator=draw),
        "mask": lambda: torch.rand(rows, generator=draw) > 0.5,
        "half": lambda: floats().half(),
        "none": lambda: None,
        "text": lambda: "relu",
        "number": lambda: 2,
        "flag": lambda: True,
        "dict": lambda: {"a": floats(), "b": floats()},
        "list": lambda: [floats() for _ in range(3)],
        "pair": lambda: named()(floats(), floats()),
        "tuple": lambda: (floats(), (floats(), floats())),
    }
    return made[kind]()


def _changes(kind: str, draw: torch.Generator, rows: int) -> Iterator[Any]:
    """Other values that a person may give where the example had one of this kind."""

    def floats() -> Tensor:
        return torch.randn(rows, 4, generator=draw)

    if kind == "dict":
        yield {"b": floats(), "a": floats()}
        yield {"a": floats()}
        yield {"a": floats(), "b": floats(), "c": floats()}
        yield {"a": floats(), "b": floats(), "z": floats()}
        yield {}
    elif kind == "list":
        yield [floats() for _ in range(2)]
        yield [floats() for _ in range(4)]
        yield tuple(floats() for _ in range(3))
        yield [floats(), floats(), None]
        yield []
    elif kind == "pair":
        yield (floats(), floats())
        yield [floats(), floats()]
    elif kind == "tuple":
        yield (floats(), (floats(),))
        yield [floats(), [floats(), floats()]]
    elif kind == "none":
        yield floats()
    elif kind == "text":
        yield "tanh"
    elif kind == "number":
        yield 3
        yield 0.5
    elif kind == "flag":
        yield False
    elif kind == "ids":
        yield torch.randint(0, 7, (rows,), generator=draw).int()
    elif kind == "half":
        yield floats()
    elif kind == "mask":
        yield (torch.rand(rows, generator=draw) > 0.5).to(torch.uint8)
    else:
        yield None
        yield floats().double()


def _kinds_of(seed: int) -> tuple[list[str], list[int], random.Random]:
    """Return what the arguments of a seed's module are, how many wrappers each has, and the choices that follow."""
    draw = random.Random(seed)
    kinds = draw.choices(_KINDS, k=draw.randint(1, 3))
    return kinds, [draw.choice((0, 0, 1, 2)) for _ in kinds], draw


def source_of(seed: int) -> str:
    """Return the source of the module of a seed."""
    kinds, wrapped, draw = _kinds_of(seed)
    lines: list[str] = []
    names: list[str] = []
    for place, (kind, how) in enumerate(zip(kinds, wrapped, strict=True)):
        optional = kind in ("none", "text", "number", "flag") and how == 0 and not names[place + 1 :]
        names.append(
            f"v{place}" + (f"={_value(kind, torch.Generator(), 1)!r}" if optional and place == len(kinds) - 1 else "")
        )
        spelled = (f"v{place}", f'v{place}["in"]', f"v{place}[1]")[how]
        for text in draw.choices(_READS[kind], k=draw.randint(1, 2)):
            lines += text.format(s=spelled, n=draw.choice(("0.5", "-1.0", "2.0"))).split("\n")
    result = draw.choice(("x", '{{"y": x, "z": [x * 2]}}', "(x, x + 1)")).replace("{{", "{").replace("}}", "}")
    body = "\n".join(f"        {line}" for line in (*lines, f"return {result}"))
    return f"{_PRELUDE}\n    def forward(self, x, {', '.join(names)}):\n{body}\n"


def modules_of(seed: int) -> AbstractContextManager[Callable[[], nn.Module]]:
    """Yield what makes the module of a seed, always with the same weights."""
    return modules_from(_HOME, seed, source_of(seed))


def _wrapped(value: Any, how: int) -> Any:
    return (value, {"in": value, "rest": "kept"}, [None, value])[how]


def _calls(seed: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    kinds, wrapped, _ = _kinds_of(seed)
    draw = torch.Generator().manual_seed(seed)
    for rows in (3, 5, 1):
        values = [_wrapped(_value(kind, draw, rows), how) for kind, how in zip(kinds, wrapped, strict=True)]
        yield f"{rows} rows", (torch.randn(rows, 4, generator=draw), *values)
    for place, (kind, how) in enumerate(zip(kinds, wrapped, strict=True)):
        for number, other in enumerate(_changes(kind, draw, 3)):
            values = [_wrapped(_value(each, draw, 3), by) for each, by in zip(kinds, wrapped, strict=True)]
            values[place] = _wrapped(other, how)
            yield f"v{place}, a {kind}, changed ({number})", (torch.randn(3, 4, generator=draw), *values)


def outcome_of(seed: int) -> Outcome:
    """Import the module of a seed, and compare it with what it compiles to, for each call.

    Beside the kinds of `Outcome`: ``"accepts"`` what the module refuses, ``"raw"`` errors that are not ours, and
    ``"refuses others"`` where some call with another structure is refused in words.
    """
    with modules_of(seed) as make:
        calls = list(_calls(seed))
        try:
            graph = pn.from_module(make(), args=copied(calls[0][1]))
        except pn.CompileError as error:
            try:
                make().eval()(*copied(calls[0][1]))
            except Exception as own:  # noqa: BLE001  # whatever it raises
                return Outcome("unusable", str(own))
            return Outcome("refused", str(error))
        except Exception as error:  # noqa: BLE001  # that is what is looked for
            return Outcome("raw", f"{type(error).__name__}: {error}")
        net = make()
        model = pn.compile(graph, reuse=net)
        refused = 0
        for said, args in calls:
            (mine, failure), (theirs, refusal) = (_called(each, args) for each in (net, model))
            if failure is None and refusal is None:
                if detail := difference(mine, theirs):
                    return Outcome("wrong", f"{said}: {detail}")
            elif refusal is None:
                return Outcome("accepts", f"{said}: the module refuses: {failure}")
            elif failure is None:
                refused += 1
                if said == "3 rows":
                    return Outcome("refused", f"{said}: {refusal}")
            if refusal is not None and not isinstance(refusal, pn.PnneError):
                return Outcome("raw", f"{said}: {type(refusal).__name__}: {refusal} (the module: {failure!r})")
    return Outcome("refuses others" if refused else "open", str(refused))


def _called(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    try:
        return module(*copied(args)), None
    except Exception as error:  # noqa: BLE001  # whatever it raises
        return None, error
