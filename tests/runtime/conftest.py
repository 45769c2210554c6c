"""Where the runtime's tests train: on the CPU, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no CUDA device here.")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
def device(request: pytest.FixtureRequest) -> str:
    """Name of the device to train on."""
    name: str = request.param
    return name
