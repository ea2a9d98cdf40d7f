"""Assignments of deep clustering: convex programmes, loops, dense eigenproblems, exact minima, batches, extremes."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from clustering.constraints import Known, constraints
from clustering.deep.fair_assignment import FairAssignment
from clustering.deep.fair_pseudo_labels import em_pseudo_labels, exact_pseudo_labels, fair_objective
from clustering.deep.xsdc.assignments import by_eigenvectors, deep_labels, eigenvector_labels
from clustering.deep.xsdc.balancing import balance
from clustering.deep.xsdc.discriminative import dissimilarity, eigengap
from clustering.foundation.errors import InputError
from clustering.metrics import accuracy
from tests.oracles import xsdc_dense, xsdc_labels
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


def draw_others(seed: int, points: int = 20, dimension: int = 5) -> tuple[torch.Tensor, np.ndarray]:
    generator = np.random.default_rng(seed)
    classes = np.arange(points) % 3
    return torch.from_numpy(5 * np.eye(3, dimension)[classes] + generator.normal(size=(points, dimension))), classes


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), clusters=st.integers(1, 5))
def test_eigenvectors_are_those_of_the_dissimilarities(seed: int, clusters: int) -> None:
    """The relaxation's value is that of the dense solution, whatever the penalty, and its constraints hold."""
    features, _ = draw_others(seed)
    nothing = constraints(20).among(np.arange(20))
    nothing.mask.fill_(False)
    M = by_eigenvectors(features, nothing, clusters)
    least = min(0.1, 1 / clusters) * 20
    for penalty in (0.5, 0.05):
        values, vectors = np.linalg.eigh(oracle.dissimilarity(features.numpy(), penalty))
        weights = np.r_[20 - (clusters - 1) * least, np.full(clusters - 1, least)]
        dense = (vectors[:, :clusters] * weights) @ vectors[:, :clusters].T
        np.testing.assert_allclose(M, dense, atol=1e-8)
        value = float((dissimilarity(features, penalty) * M).sum())
        assert value == pytest.approx(values[:clusters] @ weights, abs=1e-9)
    spectrum = torch.linalg.eigvalsh(M)
    assert float(spectrum.min()) > -1e-9
    assert float(M.trace()) == pytest.approx(20)
    assert float((spectrum / least).clamp(0, 1).sum()) == pytest.approx(clusters, abs=1e-6)


def draw_partition(seed: int, points: int = 8, dimension: int = 3, noise: float = 0.3) -> torch.Tensor:
    generator = np.random.default_rng(seed)
    return torch.from_numpy(
        3 * np.eye(3, dimension)[np.arange(points) % 3] + noise * generator.normal(size=(points, dimension))
    )


def labels_and_rows(features: torch.Tensor, clusters: int) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Both kinds of labels, and the rows on which the paper runs K-means."""
    generator, plain = np.random.default_rng(0), features.numpy()
    return [
        (eigenvector_labels(features, clusters, generator), xsdc_labels.eigenvector_rows(plain, 0.1, clusters)),
        (deep_labels(features, clusters, generator), xsdc_labels.deep_rows(plain)),
    ]


@settings(max_examples=5)
@given(seed=st.integers(0, 1000), clusters=st.integers(1, 3))
def test_labels_are_the_best_partition_of_the_rows_of_the_paper(seed: int, clusters: int) -> None:
    for found, rows in labels_and_rows(draw_partition(seed), clusters):
        assert accuracy(xsdc_labels.best_partition(rows, clusters), found) == 1


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), clusters=st.integers(1, 9), points=st.integers(4, 12))
def test_the_eigengap_is_that_of_the_dense_matrix(seed: int, clusters: int, points: int) -> None:
    """Also where the features span less than K dimensions, and with fewer points than clusters."""
    features = draw_partition(seed, points, 5)
    for penalty in (0.5, 1e-3):
        values = np.linalg.eigvalsh(xsdc_dense.dissimilarity(features.numpy(), penalty))
        gap = values[clusters] - values[clusters - 1] if points > clusters else 0.0
        assert eigengap(features, penalty, clusters) == pytest.approx(gap, abs=1e-12)


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


TIGHT = 1e-20


def draw_pseudo(
    seed: int, batch: int = 2, points: int = 9, classes: int = 3, scale: float = 2.0, even: bool = False
) -> tuple[Tensor, Tensor]:
    """(B, N, K) log-probabilities, some classes likelier than others, and (B, K) a prior."""
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(batch, points, classes, generator=generator, dtype=torch.float64)
    scores += 0.5 * scale * torch.randn(batch, 1, classes, generator=generator, dtype=torch.float64)
    prior = torch.ones(batch, classes, dtype=torch.float64)
    if not even:
        prior += torch.rand(prior.shape, generator=generator, dtype=torch.float64)
    return torch.log_softmax(scores, dim=-1), prior / prior.sum(-1, keepdim=True)


def some_known(points: int, batch: int = 2) -> tuple[Tensor, Tensor]:
    mask = (torch.arange(points) % 4 == 1).expand(batch, -1)
    return mask, (torch.arange(points) % 3).expand(batch, -1)


problems = {"seed": st.integers(0, 100_000), "fairness": st.sampled_from([0.1, 1.0, 7.5, 100.0])}


@settings(deadline=None, max_examples=15)
@given(with_known=st.booleans(), **problems)
def test_em_never_raises_the_objective_and_ends_above_the_exact_minimum(
    seed: int, fairness: float, with_known: bool
) -> None:
    log_p, prior = draw_pseudo(seed)
    known = some_known(9) if with_known else None
    values = [
        fair_objective(
            em_pseudo_labels(log_p, fairness, prior, known=known, tolerance=0, max_iterations=steps).labels,
            log_p,
            fairness,
            prior,
            known,
        )
        for steps in (0, 1, 2, 5, 20, 100)
    ]
    for before, after in pairwise(values):
        assert bool((after <= before + 1e-12).all())
    best = exact_pseudo_labels(log_p, fairness, prior, known=known, tolerance=TIGHT)
    assert bool(best.converged.all())
    assert bool((fair_objective(best.labels, log_p, fairness, prior, known) <= values[-1] + 1e-12).all())


@settings(deadline=None, max_examples=20)
@given(with_known=st.booleans(), scale=st.sampled_from([0.0, 0.1, 2.0, 5.0]), **problems)
def test_the_exact_labels_satisfy_the_conditions_of_the_minimum(
    seed: int, fairness: float, scale: float, with_known: bool
) -> None:
    """p / y + N_u / N lambda u / ybar is the same for all classes of an unknown row."""
    log_p, prior = draw_pseudo(seed, scale=scale)
    known = some_known(9) if with_known else None
    found = exact_pseudo_labels(log_p, fairness, prior, known=known, tolerance=TIGHT)
    y = found.labels
    unknown = torch.ones(2, 9, dtype=torch.bool) if known is None else ~known[0]
    torch.testing.assert_close(y.sum(-1), torch.ones(2, 9, dtype=torch.float64))
    w = unknown.double().mean() * fairness * prior / y.mean(1)
    p = log_p.exp().clamp_min(1e-8)
    c = (p / p.sum(-1, keepdim=True) / y + w[:, None])[unknown]
    assert float(((c.amax(-1) - c.amin(-1)) / c.amax(-1)).max()) < 1e-6
    if known is None:
        mean_c = (1 + (w[:, None] * y).sum(-1)).mean(-1)
        torch.testing.assert_close(mean_c, torch.full_like(mean_c, 1 + fairness), rtol=1e-7, atol=0)


@pytest.mark.parametrize("scale", [pytest.param(10.0, marks=pytest.mark.slow), 30.0])
@pytest.mark.parametrize("fairness", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturated_predictions(scale: float, fairness: float, dtype: torch.dtype) -> None:
    log_p, prior = draw_pseudo(5, batch=2, points=250, classes=10, scale=scale, even=True)
    found = exact_pseudo_labels(log_p.to(dtype), fairness, prior.to(dtype))
    assert bool(found.converged.all())
    assert found.labels.dtype == dtype
    best = fair_objective(found.labels.double(), log_p, fairness, prior)
    near = em_pseudo_labels(log_p, fairness, prior, tolerance=1e-3, max_iterations=300)
    assert bool((best <= fair_objective(near.labels, log_p, fairness, prior) + 1e-6 * (1 + fairness)).all())
