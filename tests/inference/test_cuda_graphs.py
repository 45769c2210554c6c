from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def test_on_the_cpu_the_argument_is_refused() -> None:
    with pytest.raises(pn.TrainingError, match="cuda_graphs=True needs a CUDA device, and this engine runs on cpu"):
        pn.InferenceEngine(nn.Linear(2, 2), device="cpu", cuda_graphs=True)


@needs_cuda
@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_replayed_graphs_give_what_the_model_gives(precision: str) -> None:
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    x = torch.randn(100, 8)
    plain = pn.InferenceEngine(net, "cuda", precision, batch_size=16).predict(x)
    replayed = pn.InferenceEngine(net, "cuda", precision, batch_size=16, cuda_graphs=True)
    for _ in range(3):
        torch.testing.assert_close(replayed.predict(x), plain)
    torch.testing.assert_close(replayed.predict(2 * x), pn.InferenceEngine(net, "cuda", precision, 16).predict(2 * x))


@needs_cuda
def test_a_refreshed_engine_forgets_its_graphs() -> None:
    net = nn.Linear(3, 3)
    engine = pn.InferenceEngine(net, "cuda", cuda_graphs=True)
    x = torch.randn(4, 3)
    engine.predict(x)
    with torch.no_grad():
        net.weight.zero_()
        net.bias.fill_(2)
    engine.refresh(net)
    assert engine.predict(x).eq(2).all()


@needs_cuda
def test_many_sizes_keep_a_few_graphs() -> None:
    engine = pn.InferenceEngine(nn.Linear(3, 3), "cuda", cuda_graphs=True)
    for count in range(1, 20):
        assert engine.predict(torch.randn(count, 3)).shape == (count, 3)


@needs_cuda
def test_a_model_that_looks_at_its_data_is_refused_with_the_reason() -> None:
    class Looks(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if float(x.sum()) > 0 else -x

    with pytest.raises(pn.TrainingError, match="cannot be recorded as a CUDA graph"):
        pn.InferenceEngine(Looks(), "cuda", cuda_graphs=True).predict(torch.randn(4, 3))
