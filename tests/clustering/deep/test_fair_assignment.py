"""Solvers of pseudo-labels as a method: all come as near to the minimum as they are told to."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.deep.fair_assignment import FairAssignment
from clustering.deep.fair_pseudo_labels import exact_pseudo_labels, fair_objective
from clustering.foundation.errors import InputError

SOLVERS = ("em", "exact", "newton")


def scores(points: int, classes: int, seed: int = 0) -> np.ndarray:
    return 3 * np.random.default_rng(seed).normal(size=(points, classes))


@settings(max_examples=12, deadline=None)
@given(
    st.integers(3, 30),
    st.integers(2, 5),
    st.floats(0.1, 200),
    st.sampled_from([1e-2, 1e-4]),
    st.sampled_from(SOLVERS),
    st.integers(0, 99),
)
def test_every_solver_comes_so_near(points, classes, weight, tolerance, solver, seed):
    given_scores = scores(points, classes, seed)
    made = FairAssignment(
        classes, fairness_weight=weight, solver=solver, tolerance=tolerance, max_iter=20_000
    ).fit(given_scores)  # fmt: skip
    log_p = torch.log_softmax(torch.from_numpy(given_scores), 1)
    prior = torch.full((classes,), 1 / classes, dtype=torch.float64)
    least = float(fair_objective(exact_pseudo_labels(log_p, weight, prior).labels, log_p, weight, prior))
    # Newton's decrement only estimates what is left
    room = 3 if solver == "newton" else 1
    assert -1e-9 <= made.objective_ - least <= room * tolerance * (1 + weight) + 1e-9
    assert made.assignments_.sum(1) == pytest.approx(np.ones(points))
    assert (made.assignments_ > 0).all()
    np.testing.assert_array_equal(made.labels_, made.assignments_.argmax(1))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_clusters": 4}, "n_clusters=4"),
        ({"n_clusters": 3, "prior": "even"}, "'even'"),
        ({"n_clusters": 3, "solver": "em", "tolerance": 1e-12, "max_iter": 3}, "max_iter or tolerance"),
        ({"n_clusters": 3, "solver": "cg"}, "solver"),
    ],
)
def test_what_cannot_be(parameters, words):
    with pytest.raises(InputError, match=words):
        FairAssignment(**parameters).fit(scores(50, 3))
