"""Bars around a centre: as long and thick as they are told to be, and as far from each other."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA

from clustering.datasets.generated import Bars
from clustering.foundation.errors import InputError


@pytest.mark.parametrize("bars", [3, 4, 7])
def test_bars_around_a_centre(bars: int) -> None:
    values, labels, *_ = Bars(bars=bars, points=4000, length=8, thickness=0.5, gap=0.7, around=True).read()
    apart = []
    for one in range(bars):
        own = values[labels == one]
        extent = np.ptp(PCA(2).fit_transform(own), axis=0)
        assert extent == pytest.approx([8, 0.5], abs=0.1)
        apart.append(cdist(own, values[labels == (one + 1) % bars]).min())
    assert apart == pytest.approx([0.7] * bars, abs=0.1)
    assert np.abs(values.mean(0)).max() < 0.1


def test_two_bars_have_no_inside() -> None:
    with pytest.raises(InputError, match="bars=2"):
        Bars(around=True)
