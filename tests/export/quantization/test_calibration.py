from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pnne_nb.errors import ExportError
from pnne_nb.export.quantization.calibration import calibrate, correct_biases, require_calibration
from pnne_nb.export.quantization.candidates import Candidate
from pnne_nb.export.quantization.scheme import convert

LAYER = Candidate("fc", "", "fc", "fc")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.unused = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(x)
        return out


def ranges(*batches: Tensor) -> tuple[float, float]:
    """The smallest and the largest number that 8 bits stand for."""
    found = calibrate(Net(), [LAYER], [lambda model, x=x: model(x) for x in batches])["fc"]  # type: ignore[misc]  # bound early
    return (0 - found.zero_point) * found.scale, (255 - found.zero_point) * found.scale


def test_the_range_covers_even_values_and_zero() -> None:
    low, high = ranges(torch.linspace(-1, 3, 64).reshape(16, 4))
    assert low == pytest.approx(-1, abs=0.02)
    assert high == pytest.approx(3, abs=0.02)
    low, high = ranges(torch.linspace(2, 3, 64).reshape(16, 4))
    assert low == pytest.approx(0, abs=0.02)
    assert ranges(torch.zeros(4, 4)) == pytest.approx((0, 0), abs=1e-9)


def test_rare_ends_are_cut_where_the_others_gain_by_it() -> None:
    x = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
    x[0, 0] = 12.0
    _, high = ranges(x)
    assert high < 12.0


def test_values_of_all_places_count() -> None:
    # Of 64 images of 64 channels, 16 by 16 pixels: nothing but noise in the corners, and what matters elsewhere.
    images = 0.1 * torch.randn(64, 64, 16, 16, generator=torch.Generator().manual_seed(0)).abs()
    images[:, :, 4:12, 4:12] += 2.0
    net = nn.Sequential(nn.Conv2d(64, 2, 1))
    found = calibrate(net, [Candidate("0", "", "0", "0")], [lambda model: model(images)])["0"]
    assert (255 - found.zero_point) * found.scale > 2.2


def test_all_batches_count() -> None:
    low, high = ranges(torch.full((4, 4), 1.0), torch.full((4, 4), -2.0))
    assert (low, high) == pytest.approx((-2, 1), abs=0.02)


def test_values_that_are_not_finite_are_told_at_the_node_and_hooks_go() -> None:
    net = Net()
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ExportError, match="fc: its input has values that are not finite") as caught:
            calibrate(net, [LAYER], [lambda model, wrong=wrong: model(torch.full((2, 4), wrong))])  # type: ignore[misc]  # as above
        assert caught.value.diagnostics[0].node == "fc"
    assert not net.fc._forward_pre_hooks


def test_what_did_not_run_has_no_range() -> None:
    unused = Candidate("unused", "", "unused", "unused")
    found = calibrate(Net(), [LAYER, unused], [lambda model: model(torch.ones(2, 4))])
    assert list(found) == ["fc"]
    assert require_calibration(found, [LAYER, unused]) == {
        "unused": "it did not run on the calibration data, so the range of its input is unknown"
    }


@pytest.mark.parametrize(
    ("layer", "shape", "channel"),
    [
        (nn.Linear(6, 5), (40, 7, 6), 2),
        (nn.Conv1d(3, 5, 3, padding=1), (40, 3, 9), 1),
        (nn.Conv2d(3, 5, 3, groups=1), (40, 3, 8, 8), 1),
        (nn.Conv2d(3, 5, 3), (3, 8, 8), 0),
    ],
)
def test_no_channel_is_shifted_by_rounding(layer: nn.Module, shape: tuple[int, ...], channel: int) -> None:
    # Inputs that are never negative, as after ReLU: rounded weights then shift every output to one side.
    batches = [torch.rand(shape, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    net, candidate = nn.Sequential(layer).eval(), Candidate("0", "", "0", "0")
    calls = [lambda model, x=x: model(x) for x in batches]
    inputs = calibrate(net, [candidate], calls)["0"]
    plain = {"0": convert(layer, "static", inputs)}
    corrected = correct_biases(net, [candidate], plain, calls)

    def shift(converted: nn.Module) -> Tensor:
        with torch.no_grad():
            gaps = torch.stack([layer(x) - converted(x) for x in batches])
        return gaps.movedim(channel + 1, 0).flatten(1).mean(1).abs().max()

    assert shift(corrected["0"].module()) < 1e-5 < shift(plain["0"].module())
    assert not layer._forward_hooks


def test_a_layer_without_a_bias_or_without_data_stays_as_it_is() -> None:
    net = nn.Sequential(nn.Linear(4, 2, bias=False), nn.Linear(2, 2))
    both = [Candidate(str(place), "", str(place), str(place)) for place in range(2)]
    calls = [lambda model: model(torch.rand(8, 4))]
    ranges = calibrate(net, both, calls)
    layers = {each.path: convert(net.get_submodule(each.path), "static", ranges[each.path]) for each in both}
    found = correct_biases(net, both, layers, [])
    assert all(torch.equal(found["1"].tensors[name], value) for name, value in layers["1"].tensors.items())
    assert "bias" not in correct_biases(net, both, layers, calls)["0"].tensors
