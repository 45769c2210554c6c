"""Every reason why a module stays closed names the line of a person's code."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.importing.draft.source_lines import module_at, with_line, written_at
from pnne_nb.compiler.importing.translation.emit_ops import UNCALLED

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y.relu()


class Around(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.part(self.first(x))
        return y


class Remembering(Part):
    last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        self.last = y if self.last is None else y + self.last
        return self.last


class Recording(Part):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return y * 2 if torch.is_grad_enabled() else y


class Frozen(Part):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.norm.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.fc(x))
        return y


class Transforming(Part):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.vmap(lambda row: row * row.sum())(self.fc(x))
        return y


class Choosing(Part):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        if y.sum() > 0:
            return y
        return -y


def hooked() -> nn.Module:
    part = Part()
    part.fc.register_forward_hook(lambda module, args, result: result * 2)
    return part


def replaced() -> nn.Module:
    part = Part()
    vars(part)["forward"] = types.MethodType(lambda self, x: self.fc(x) * 3, part)
    return part


def holding_closed_parts() -> nn.Module:
    class Looping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([Frozen(), Part()])

        def forward(self, x: Tensor) -> Tensor:
            while x.sum() > 100:
                x = x / 2
            for part in self.parts:
                x = part(x) if part.training else part.get_submodule("fc")(x)
            return x

    return Looping()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "make",
    [
        Remembering, Recording, Frozen, Transforming, Choosing, hooked, replaced, holding_closed_parts,
        lambda: torch.jit.script(Part()), lambda: torch.jit.trace(Part(), X),  # type: ignore[no-untyped-call]  # torch's
    ],
)  # fmt: skip
def test_every_reason_names_a_line(make: Callable[[], nn.Module]) -> None:
    for net in (Around(make()), make()):
        graph = pn.from_module(net, X)
        nodes = [node for inner in graph.graphs.values() for node in inner.nodes.values()]
        reasons = [node.origin.reason for node in nodes if node.origin is not None and node.origin.reason]
        reasons = [reason for reason in reasons if reason != UNCALLED]
        assert reasons
        assert [reason for reason in reasons if "test_source_lines.py, line" not in reason] == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_traced_module_names_no_line_of_this_package() -> None:
    space: dict[str, Any] = {}
    exec(compile("def watch(call, x): return call(x)", pn.__file__, "exec"), space)  # as a watched call is

    class Watched(Part):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = space["watch"](torch.relu, self.fc(x))
            return y

    traced = torch.jit.trace(Watched(), X)  # type: ignore[no-untyped-call]  # torch's
    assert "test_source_lines.py, line" in module_at(traced)
    assert module_at(torch.jit.script(nn.Linear(2, 2))) == ""


def test_a_part_alone_is_closed_where_only_that_goes_by_the_recording_of_gradients() -> None:
    graph = pn.from_module(Around(Recording()), X)
    assert graph["part"].type == "Module"
    assert graph["first"].type == "Linear"


def test_a_line_is_the_first_of_a_function_and_none_of_torchs() -> None:
    assert written_at(Part.forward).endswith(": def forward(self, x: Tensor) -> Tensor")
    assert written_at(nn.Linear.forward) == module_at(nn.Linear(2, 2)) == written_at(len) == ""
    assert module_at(Part()) == written_at(Part.forward)


def test_a_reason_has_one_line() -> None:
    assert with_line("it ends.", "net.py, line 3") == "it ends (net.py, line 3)"
    assert with_line("it ends (net.py, line 2)", "net.py, line 3") == "it ends (net.py, line 2)"
    assert with_line("it ends", "") == "it ends"
