"""XSDC: input that cannot be, and what is said of input that hardly can."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from clustering.deep import XSDC
from clustering.foundation.errors import InputError
from clustering.methods import arranged
from tests.clustering.deep.test_xsdc import blobs, small


@pytest.mark.parametrize("size", [40, 1024])
def test_sizes_that_labels_leave_no_room_for_are_said_before_training(size: int) -> None:
    X, _ = blobs()
    rows = np.arange(150)
    steps: list[int] = []

    def count(n: int = 1, **numbers: float) -> None:
        steps.append(n)

    with pytest.raises(InputError, match=r"60 of 150 points .*max_share"):
        small(batch_size=size, max_share=0.35).fit(X, partial_labels=np.where(rows < 60, 0, -1), advance=count)
    labels = np.where(rows < 147, rows % 2, -1)
    with pytest.raises(InputError, match=r"cluster 2 .*0 of 150 points, .*15: lower min_share"):
        small(batch_size=size, min_share=0.1, max_share=0.6).fit(X, partial_labels=labels, advance=count)
    assert not steps


def test_pairs_apart_that_clusters_do_not_allow_are_said() -> None:
    X, _ = blobs()
    clique = list(combinations(range(4), 2))
    with pytest.warns(ConvergenceWarning, match="1 of the cannot-link"):
        small(steps=2).fit(X, cannot_link=clique)
    with pytest.raises(InputError, match=r"cannot_link .*point 3 .*3 clusters"):
        small(steps=2).fit(X, partial_labels=[0, 1, 2] + 147 * [-1], cannot_link=clique)


@pytest.mark.parametrize(
    ("settings", "given", "said"),
    [
        ({"min_share": 0.1, "max_share": 0.3}, {}, r"min_share=0\.1 .*max_share=0\.3 "),
        ({"representation": "resnet"}, {}, "representation .*linear, .*lenet5"),
        ({"representation": "lenet5"}, {}, "lenet5 .*colour=grey"),
        ({"representation": "ckn_gm"}, {}, "ckn_gm .*6 x 6 .*15 columns"),
        ({"max_share": 0.5, "assignment": "eigenvectors"}, {}, "assignment=eigenvectors"),
        ({"deep_clusters": 30}, {}, "deep_clusters=30 .*assignment=deep_clustering"),
        ({"deep_clusters": 151, "assignment": "deep_clustering"}, {}, "deep_clusters=151 .*n_samples=150"),
        ({"n_clusters": 9, "assignment": "eigenvectors_kmeans"}, {}, "9 clusters need 8 features"),
        (
            {"assignment": "pseudo_labels"},
            {"partial_labels": np.arange(150) % 3 - 1},
            "assignment=pseudo_labels needs labels of every cluster",
        ),
        ({"penalty": 0.0}, {}, "penalty"),
        ({"copies": 0}, {}, "Solver: copies must be an integer at least 1, not 0"),
        ({}, {"partial_labels": np.full(150, 3)}, r"partial_labels .*0\.\.2"),
        ({"max_share": 0.35}, {"must_link": [(0, i) for i in range(1, 60)]}, "max_share"),
    ],
)
def test_what_cannot_be_is_named(settings: dict[str, Any], given: dict[str, Any], said: str) -> None:
    X, _ = blobs()
    with pytest.raises(InputError, match=said):
        small(**settings).fit(X, **given)


def test_a_setting_of_the_solver_that_is_not_there_is_named() -> None:
    X, _ = blobs()
    with pytest.raises(InputError, match=r"setting of solver .*bath_size.*did you mean 'batch_size'"):
        XSDC(3, solver={"bath_size": 10}).fit(X)


def test_settings_of_the_solver_are_set_by_their_names() -> None:
    model = XSDC(3, solver={"copies": 4})
    assert arranged(model, {"steps": 3, "decay": 0.1}) == {"steps": 3, "solver": {"copies": 4, "decay": 0.1}}
    assert arranged(model, {"copies": 1}) == {"solver": None}
    assert arranged(XSDC, {"batch_size": 7}) == {"solver": {"batch_size": 7}}
