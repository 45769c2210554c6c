"""Many samples at once against each by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pnne_nb.inspector.statistics.sampling import FloatArray
from pnne_nb.inspector.statistics.segments import measure_segments

VALUES = st.one_of(st.floats(-1e3, 1e3, width=32), st.sampled_from([0.0, np.nan, np.inf, -np.inf]))


@given(st.lists(hnp.arrays(np.float32, st.integers(0, 20), elements=VALUES), max_size=6))
def test_each_row_is_its_sample(samples: list[FloatArray]) -> None:
    found = measure_segments(samples, 5)
    assert found.counts.shape == (len(samples), 5)
    for row, sample in enumerate(samples):
        values = {name: column[row] for name, column in found.values.items()}
        finite = sample[np.isfinite(sample)].astype(np.float64)
        assert (values["nan"], values["inf"]) == (np.isnan(sample).sum(), np.isinf(sample).sum())
        assert found.counts[row].sum() == finite.size
        assert found.lower[row] < found.upper[row]
        if finite.size == 0:
            assert np.isnan(values["mean"])
            assert values["norm"] == 0
            continue
        assert values["mean"] == pytest.approx(finite.mean(), abs=1e-9)
        assert values["norm"] == pytest.approx(np.linalg.norm(finite))
        assert (values["min"], values["max"]) == (finite.min(), finite.max())
        assert values["zeros"] == (finite == 0).mean()
        if finite.size > 1:
            assert values["std"] == pytest.approx(finite.std(ddof=1), abs=1e-9)
        else:
            assert np.isnan(values["std"])
