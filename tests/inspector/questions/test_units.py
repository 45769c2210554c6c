"""The units of a layer: what they count is gradient times output, and remarks are those of plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.questions.units import layer_output, look_at_units
from tests.inspector.models import hooks_on


def conv() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(80, 3)).eval()


def test_what_units_count_is_their_output_times_the_gradient() -> None:
    net, x = conv(), torch.randn(7, 1, 6, 6)
    report = look_at_units(net, x, "0", x[2:3], 1)
    output = net[0](x[2:3]).detach().requires_grad_()
    [gradient] = torch.autograd.grad(net[3](output.relu().flatten(1))[0, 1], output)
    assert report.share is not None
    wanted = (output * gradient).sum((0, 2, 3)).detach().double()
    torch.testing.assert_close(torch.from_numpy(report.share), wanted, rtol=1e-5, atol=1e-6)
    assert report.order().tolist() == wanted.argsort(descending=True).tolist()
    whole = net[0](x).detach()
    assert report.strongest[:, 0].tolist() == whole.amax((2, 3)).argmax(0).tolist()
    flat = whole[2].flatten(1)
    torch.testing.assert_close(
        torch.from_numpy(report.level).float(), flat.gather(1, flat.abs().argmax(1)[:, None])[:, 0]
    )
    assert hooks_on(net) == 0
    assert all(parameter.grad is None for parameter in net.parameters())


def test_without_a_target_units_are_ordered_by_their_output() -> None:
    net, x = conv(), torch.randn(7, 1, 6, 6)
    report = look_at_units(net, x, "1", x[:1])
    assert report.share is None
    assert report.order().tolist() == net[:2](x[:1]).amax((0, 2, 3)).argsort(descending=True).tolist()


def test_a_frozen_network_is_asked_too() -> None:
    net, x = conv().requires_grad_(requires_grad=False), torch.randn(2, 1, 6, 6)
    report = look_at_units(net, x, "0", x[:1], 0)
    assert report.share is not None
    assert report.share.any()


def test_dead_constant_saturated_and_duplicate_units() -> None:
    linear = nn.Linear(3, 5)
    net = nn.Sequential(linear, nn.Hardtanh())
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 0, 0], [0.5, 0, 0], [0, 0, 0], [0, 0, 0], [0, 900.0, 0]]))
        linear.bias.copy_(torch.tensor([0, 0, 0, 0.3, 0]))
    x = torch.rand(50, 3) - 0.5
    assert look_at_units(net, x, "1", x[:1]).states == ("", "like 0", "dead", "constant", "saturated")


def test_units_of_sequences_are_counted_in_the_last_dimension() -> None:
    net, tokens = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6)), torch.tensor([[0, 1, 5]])
    report = look_at_units(net, tokens, "0", tokens, (-1, 2))
    assert (report.axis, len(report)) == (2, 4)


def test_what_cannot_be_asked() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.spare = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x)  # type: ignore[no-any-return]  # torch types the call of a module as Any

    x = torch.randn(3, 2)
    with pytest.raises(InspectionError, match="The layer 'spare' is not called for this example"):
        layer_output(Unused(), x, "spare")
    with pytest.raises(InspectionError, match=r"'1' returns the shape \[6\], in which there are no units"):
        look_at_units(nn.Sequential(nn.Linear(2, 2), nn.Flatten(0)), x, "1", x[:1])
