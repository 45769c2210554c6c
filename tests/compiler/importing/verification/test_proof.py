"""Large modules are tried in other element types with parameters of few numbers, which take no memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.importing.verification import proof
from pnne_nb.compiler.importing.verification.batch_resize import tried
from pnne_nb.compiler.importing.verification.proof import converted

X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Shifted(nn.Module):
    """Adds constants, which keep their element type."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 2)
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(self.conv(x[:, None]).flatten(1))
        return y + torch.tensor([1.0, 2.0, 3.0]) / 3


class Viewing(Shifted):
    """Takes its weight for contiguous."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.fc.weight.view(-1).sum()


@pytest.fixture
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "MAX_CONVERTED", 0)
    monkeypatch.setattr(proof, "LARGE", 2)


@pytest.mark.usefixtures("_large")
@pytest.mark.parametrize("make", [Shifted, Viewing])
def test_parameters_of_few_numbers_do_where_the_code_takes_them(make: type[Shifted]) -> None:
    net = make()
    graph = pn.from_module(net, X)
    model = pn.compile(graph, reuse=net)
    autocast, *found = converted(net, model, ((X,), {}), {})
    assert autocast.said == "in an autocast to torch.bfloat16"
    assert [each.dtype for each in found] == list(proof.DTYPES)
    for each in found:
        weight = each.net.get_parameter("fc.weight")
        assert weight.untyped_storage().nbytes() < weight.nbytes
        answer = tried(graph, each.net.eval(), each.model.eval(), each.inputs)
        assert answer is (True if make is Shifted else None)
        assert each.whole is not None
        whole = each.whole()
        assert torch.equal(whole.net.get_parameter("fc.weight"), net.fc.weight.to(each.dtype))
        assert tried(graph, whole.net.eval(), whole.model.eval(), whole.inputs) is True


@pytest.mark.usefixtures("_large")
def test_a_buffer_that_is_converted_is_told_all_the_same() -> None:
    class ByBuffer(Shifted):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("constant", torch.tensor([1.0, 2.0, 3.0]), persistent=False)
            self.constant: Tensor

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.fc(self.conv(x[:, None]).flatten(1))
            return y + self.constant / 3

    net, other = Shifted(), ByBuffer()
    other.load_state_dict(net.state_dict())
    graph = pn.from_module(net, X)
    answers = [tried(graph, c.net.eval(), c.model.eval(), c.inputs) for c in converted(net, other, ((X,), {}), {})]
    assert False in answers
