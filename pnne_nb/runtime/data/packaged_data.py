"""`datasets`: the small data sets that come with scikit-learn, as tensors that an engine takes."""

from __future__ import annotations

from typing import Any, Final, NoReturn, TypeAlias, final

import torch
from torch import Tensor

from pnne_nb.errors import TrainingError, no_attribute
from pnne_nb.habits import Habits

Examples: TypeAlias = tuple[Tensor, Tensor]
"""Inputs and targets."""


@final
class PackagedData:
    """The data sets by name: ``X, y = pn.datasets.digits()``. Nothing is downloaded.

    Raises:
        TrainingError: If scikit-learn is not installed.
    """

    def digits(self) -> Examples:
        """Return 1,797 handwritten digits `[N, 1, 8, 8]`, from 0 to 1, and the classes 0 to 9, `[N]`."""
        inputs, targets = _loaded("digits")
        return inputs.reshape(-1, 1, 8, 8) / 16, targets

    def iris(self) -> Examples:
        """Return four lengths in cm of 150 flowers, `[150, 4]`, and three kinds, `[150]`."""
        return _loaded("iris")

    def wine(self) -> Examples:
        """Return 13 measurements of 178 wines, `[178, 13]`, and three growers, `[178]`."""
        return _loaded("wine")

    def breast_cancer(self) -> Examples:
        """Return 30 measurements of 569 cell nuclei, `[569, 30]`, and 0 for malignant, 1 for benign, `[569]`."""
        return _loaded("breast_cancer")

    def diabetes(self) -> Examples:
        """Return ten measurements of 442 patients, `[442, 10]`, and the progression of their illness, `[442, 1]`, 25 to 346."""
        inputs, targets = _loaded("diabetes")
        # One column, as a layer with one output gives: a loss would spread [n] against [n, 1] over both.
        return inputs, targets[:, None].float()

    def moons(self, count: int = 400, *, noise: float = 0.1, seed: int = 0) -> Examples:
        """Return points of two interleaved half circles, `[count, 2]`, and which one each is of, `[count]`.

        Args:
            count: The number of points.
            noise: Standard deviation of the points around their half circle, of radius 1.
            seed: Of the draws.
        """
        inputs, targets = _sklearn().make_moons(count, noise=noise, random_state=seed)
        return torch.tensor(inputs, dtype=torch.float32), torch.tensor(targets)

    def __getattr__(self, name: str) -> NoReturn:
        raise no_attribute(self, name, Habits("datasets"))

    def __repr__(self) -> str:
        listed = (f"pn.datasets.{name}(): {(getattr(self, name).__doc__ or '').splitlines()[0]}" for name in NAMES)
        return "\n".join(line.replace("Return ", "").replace("`", "") for line in listed)


NAMES: Final = ("digits", "iris", "wine", "breast_cancer", "diabetes", "moons")
datasets: Final = PackagedData()


def _loaded(name: str) -> Examples:
    loaded = getattr(_sklearn(), f"load_{name}")()
    return torch.tensor(loaded.data, dtype=torch.float32), torch.tensor(loaded.target)


def _sklearn() -> Any:
    try:
        from sklearn import datasets as packaged  # noqa: PLC0415  # an extra or slow to import: imported late
    except ImportError:
        raise TrainingError(
            "The data sets of pn.datasets come with scikit-learn: pip install 'pnne_nb[lab]'."
        ) from None
    return packaged
