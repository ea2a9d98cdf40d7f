"""Solvers of pseudo-labels as a method: all come as near to the minimum as they are told to."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from clustering.datasets.generated import Predictions
from clustering.deep.fair_assignment import FairAssignment, em_steps, newton_pseudo_labels
from clustering.deep.fair_pseudo_labels import em_pseudo_labels, exact_pseudo_labels, fair_objective
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


def test_newton_ends_where_the_exact_solver_does():
    log_p = torch.log_softmax(torch.from_numpy(scores(12, 4)), 1)
    prior = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    found = newton_pseudo_labels(log_p, 10.0, prior, tolerance=1e-14)
    assert bool(found.converged)
    torch.testing.assert_close(found.labels, exact_pseudo_labels(log_p, 10.0, prior).labels, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.labels.mean(0), prior, atol=0.1, rtol=0)


def test_the_number_of_steps_is_the_least_that_will_do():
    log_p = torch.log_softmax(torch.from_numpy(scores(40, 5)), 1)
    prior = torch.full((5,), 0.2, dtype=torch.float64)
    least = float(fair_objective(exact_pseudo_labels(log_p, 100.0, prior).labels, log_p, 100.0, prior))

    def gap(steps: int) -> float:
        found = em_pseudo_labels(log_p, 100.0, prior, tolerance=0, max_iterations=steps).labels
        return float(fair_objective(found, log_p, 100.0, prior)) - least

    steps = em_steps(log_p, 100.0, prior, 1e-5, 10_000)
    assert steps is not None
    assert steps > 1
    assert gap(steps) <= 101e-5 < gap(steps - 1)
    assert em_steps(log_p, 100.0, prior, 1e-5, steps) == steps
    assert em_steps(log_p, 100.0, prior, 1e-5, steps - 1) is None


def test_sizes_are_those_of_the_prior():
    made = FairAssignment(3, prior=[6, 3, 1], tolerance=1e-9).fit(scores(200, 3))
    assert made.assignments_.mean(0) == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    assert clone(made).get_params() == made.get_params()


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


def test_a_system_that_is_too_large():
    with pytest.raises(InputError, match="unknowns"):
        FairAssignment(3, solver="newton").fit(scores(3001, 3))


def test_predictions_are_as_many_as_asked_for():
    found = Predictions(classes=7, entries=100, offset=2.0).read()
    assert found.values.shape == (14, 7)
    assert found.labels is None
    assert len(found.class_names) == 7
    assert Predictions(classes=300, entries=100).read().values.shape == (2, 300)
