from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from tests.inspector.questions.nets import made
from tests.inspector.questions.untouched import untouched


def window(at: int, layers: list[tuple[int, int, int, int]], size: int) -> tuple[int, int]:
    """First and last position that convolutions (kernel, stride, padding, dilation) read for one, by arithmetic."""
    low = high = at
    for kernel, stride, padding, dilation in reversed(layers):
        low, high = low * stride - padding, high * stride - padding + dilation * (kernel - 1)
    return max(0, low), min(size - 1, high)


def test_it_is_that_of_the_arithmetic_of_convolutions() -> None:
    torch.manual_seed(0)
    sizes = [(3, 1, 0, 1), (2, 2, 0, 1), (3, 1, 2, 2), (3, 2, 1, 1)]
    layers: list[nn.Module] = []
    for kernel, stride, padding, dilation in sizes:
        pool = kernel == 2
        layers += (
            [nn.MaxPool2d(2)] if pool else [nn.Conv2d(3, 3, kernel, stride, padding, dilation), nn.ReLU(inplace=True)]
        )
    net, x = nn.Sequential(*layers), torch.randn(2, 3, 20, 24)
    output = net(x)
    for row, column in ((0, 0), (1, 2), (output.shape[2] - 1, output.shape[3] - 1)):
        with untouched(net):
            found = pn.receptive_field(net, x, str(len(layers) - 1), (1, 2, row, column))
        box = found.boxes()["input"]
        assert box == ((1, 1), (0, 2), window(row, sizes, 20), window(column, sizes, 24))
        assert bool(found.reads["input"][1, :, box[2][0] : box[2][1] + 1, box[3][0] : box[3][1] + 1].all())


def test_it_equals_the_gradient_of_a_smooth_net() -> None:
    case = made("U-Net")
    x = case.data.clone().requires_grad_()
    case.net.eval()(x)[1, 2, 3, 5].backward()
    found = pn.receptive_field(case.net, case.data, "out", (1, 2, 3, 5))
    assert x.grad is not None
    torch.testing.assert_close(found.reads["input" if "input" in found.reads else "x"], x.grad != 0)


def test_a_position_of_a_language_model_depends_on_those_before_it() -> None:
    case = made("GPT")
    found = pn.receptive_field(case.net, case.data, "blocks.1", (0, 3, 2))
    assert found.reads["ids"].tolist() == [[True] * 4 + [False] * 2, [False] * 6]
    assert repr(found) == "blocks.1[0, 3, 2] depends on ids: 4 of 12 values, [0, 0–3]"


def test_a_function_of_a_compiled_graph() -> None:
    own = made("residual").net
    net = pn.compile(pn.from_module(own, args=(torch.randn(2, 3, 6, 6),)))
    found = pn.receptive_field(net, torch.randn(1, 3, 6, 6), "add", (0, 1, 0, 0))
    assert found.boxes()["x"] == ((0, 0), (0, 2), (0, 3), (0, 3))


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "no index": (lambda: pn.receptive_field(nn.ReLU(), torch.ones(1, 2), "", "first"), "index must be that of one"),  # type: ignore[arg-type]
    "no element": (lambda: pn.receptive_field(nn.ReLU(), torch.ones(1, 2), "", (0, 2)), "has no element"),
    "no layer": (lambda: pn.receptive_field(nn.ReLU(), torch.ones(1, 2), "a", (0, 1)), "The model has no layer 'a'"),
    "no gradient": (lambda: pn.receptive_field(Lost(), torch.ones(1, 2), "", (0, 1)), "no gradient with respect to"),
}  # fmt: skip


class Lost(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.detach() * 2


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_work_is_explained(name: str) -> None:
    call, message = BAD[name]
    with pytest.raises((pn.ArgumentError, pn.InspectionError, pn.LayerNotFoundError), match=message):
        call()
