"""Matrix balancing: against a solver of convex programmes and the paper's algorithm, optimality, bounds, extremes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.constraints import Known, constraints
from clustering.deep.xsdc.balancing import balance
from clustering.deep.xsdc.discriminative import dissimilarity
from tests.oracles import xsdc_dense as oracle

SEEDS = st.integers(0, 100_000)


def draw(seed: int, points: int = 12, labelled: int = 0, clusters: int = 3) -> tuple[torch.Tensor, Known]:
    """Dissimilarities of loose clusters, and what is known of the points by their labels."""
    generator = np.random.default_rng(seed)
    classes = generator.permutation(np.arange(points) % clusters)
    features = 2 * np.eye(clusters)[classes] + generator.normal(size=(points, clusters))
    labels = np.where(generator.permutation(points) < labelled, classes, -1)
    known = constraints(points, labels=labels).among(np.arange(points))
    return dissimilarity(torch.from_numpy(features), 0.1), known


def solve(A: torch.Tensor, known: Known, low: float, high: float, rounds: int = 10) -> tuple[torch.Tensor, float]:
    return balance(A, known.mask, known.values, low, high, rounds=rounds)


@pytest.mark.parametrize(("low", "high"), [(2, 2), (1.5, 2.5), (1, 4)])
@pytest.mark.parametrize("labelled", [0, 2])  # of 3, sizes of 2 leave the rest no pair
def test_it_solves_the_convex_programme(low: float, high: float, labelled: int) -> None:
    """With the coefficient 1 of <M, A>, not the printed 1/2."""
    A, known = draw(0, points=6, labelled=labelled)
    nu, reference = float(A.abs().median()), (low + high) / 12
    expected = oracle.solve_balance(A.numpy(), known.mask.numpy(), known.values.numpy(), low, high, nu, reference)
    found, _ = solve(A, known, low, high, rounds=3000)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    halved = oracle.solve_balance(A.numpy() / 2, known.mask.numpy(), known.values.numpy(), low, high, nu, reference)
    assert np.abs(halved - expected).max() > 1e-2


@settings(max_examples=20)
@given(seed=SEEDS, labelled=st.integers(0, 8), slack=st.sampled_from([0.0, 1.0, 3.0]), rounds=st.integers(1, 60))
def test_bounds_and_what_is_known(seed: int, labelled: int, slack: float, rounds: int) -> None:
    A, known = draw(seed, labelled=labelled)
    low, high = 4 - slack, 4 + slack
    M, residual = solve(A, known, low, high, rounds)
    assert torch.equal(M[known.mask], known.values[known.mask])
    assert float(M.min()) >= 0
    assert float(M.sum(0).min()) >= low - 1e-9
    assert float(M.sum(0).max()) <= high + 1e-9
    rows = M.sum(1)
    assert residual == pytest.approx(max(0, float(low - rows.min()), float(rows.max() - high)), abs=1e-12)
