"""The projection is that of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import nn

import pnne_nb as pn
from tests.inspector.questions.nets import made
from tests.inspector.questions.untouched import untouched


@pytest.mark.parametrize(("name", "layer"), [("MLP", "0"), ("CNN", "3"), ("GPT", "blocks.1"), ("LSTM", "rnn")])
def test_the_points_are_those_of_scikit_learn(name: str, layer: str) -> None:
    case = made(name)
    x = torch.cat([case.data] * 4)
    x = torch.randint(11, x.shape) if name == "GPT" else torch.randn(x.shape)
    with untouched(case.net):
        found = pn.project(case.net, x, layer)
    seen = []
    net = case.net.eval()
    handle = net.get_submodule(layer).register_forward_hook(
        lambda *call: seen.append(call[2][0] if isinstance(call[2], tuple) else call[2])
    )
    with torch.no_grad():
        net(x)
    handle.remove()
    pca = PCA(2, svd_solver="full")
    wanted = pca.fit_transform(seen[0].detach().double().flatten(1).numpy())
    np.testing.assert_allclose(np.abs(found.points), np.abs(wanted), atol=1e-9)
    assert found.explained == pytest.approx(tuple(pca.explained_variance_ratio_))
    assert f"Projection('{layer}', {len(x)} examples" in repr(found)


def test_what_does_not_work_is_explained() -> None:
    with pytest.raises(pn.InspectionError, match="needs two examples or more, and there is 1"):
        pn.project(nn.ReLU(), torch.ones(1, 3), "")
    with pytest.raises(pn.InspectionError, match="returns numbers that are not finite"):
        pn.project(nn.ReLU(), torch.full((2, 3), torch.nan), "")
    with pytest.raises(pn.InspectionError, match="None of the layers is called and returns a real number"):
        pn.project(nn.Flatten(), torch.ones(2, 3, dtype=torch.int64), "")
