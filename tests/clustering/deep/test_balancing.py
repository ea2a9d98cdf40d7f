"""Matrix balancing: against a solver of convex programmes and the paper's algorithm, optimality, bounds, extremes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.constraints import Known, constraints
from clustering.deep.xsdc import balancing
from clustering.deep.xsdc.balancing import Balanced, balance
from clustering.deep.xsdc.discriminative import discriminative_objective, dissimilarity
from clustering.foundation.errors import InputError
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


def solve(
    A: torch.Tensor, known: Known, low: float, high: float, rounds: int = 10, nu: float | None = None
) -> Balanced:
    return balance(A, known.mask, known.values, low, high, rounds=rounds, temperature=nu)


@pytest.mark.parametrize(("low", "high"), [(2, 2), (1.5, 2.5), (1, 4)])
@pytest.mark.parametrize("labelled", [0, 2])  # of 3, sizes of 2 leave the rest no pair
def test_it_solves_the_convex_programme(low: float, high: float, labelled: int) -> None:
    """With the coefficient 1 of <M, A>, not the printed 1/2."""
    A, known = draw(0, points=6, labelled=labelled)
    nu, reference = float(A.abs().median()), (low + high) / 12
    expected = oracle.solve_balance(A.numpy(), known.mask.numpy(), known.values.numpy(), low, high, nu, reference)
    found = solve(A, known, low, high, rounds=3000)
    assert float(found.temperature) == pytest.approx(nu)
    np.testing.assert_allclose(found.equivalence, expected, atol=2e-5)
    halved = oracle.solve_balance(A.numpy() / 2, known.mask.numpy(), known.values.numpy(), low, high, nu, reference)
    assert np.abs(halved - expected).max() > 1e-2


@settings(max_examples=2)
@given(seed=SEEDS, labelled=st.integers(0, 6), wide=st.booleans())
@pytest.mark.slow
def test_it_ends_where_the_algorithm_of_the_paper_does(seed: int, labelled: int, wide: bool) -> None:
    A, known = draw(seed, labelled=labelled)
    low, high = (3, 5.5) if wide else (4, 4)
    found = solve(A, known, low, high, rounds=3000)
    expected = oracle.balance(
        A.numpy(),
        known.mask.numpy(),
        known.values.numpy(),
        low,
        high,
        float(found.temperature),
        3000,
        (low + high) / 24,
    )
    np.testing.assert_allclose(found.equivalence, expected, atol=1e-6)


@settings(max_examples=12)
@given(seed=SEEDS, rounds=st.integers(1, 12))
def test_with_nothing_known_it_is_sinkhorn_and_knopp(seed: int, rounds: int) -> None:
    A, _ = draw(seed)
    nothing = torch.zeros_like(A, dtype=torch.bool)
    found = balance(A, nothing, A, 4, 4, rounds=rounds, reference=1 / 3)
    plan = np.exp(-A.numpy() / float(found.temperature)) / 3
    for _ in range(rounds):
        plan = plan * (4 / plan.sum(axis=1, keepdims=True))
        plan = plan * (4 / plan.sum(axis=0, keepdims=True))
    np.testing.assert_allclose(found.equivalence, plan, rtol=1e-10)


@settings(max_examples=20)
@given(seed=SEEDS, labelled=st.integers(0, 8), slack=st.sampled_from([0.0, 1.0, 3.0]), rounds=st.integers(1, 60))
def test_bounds_and_what_is_known(seed: int, labelled: int, slack: float, rounds: int) -> None:
    A, known = draw(seed, labelled=labelled)
    low, high = 4 - slack, 4 + slack
    found = solve(A, known, low, high, rounds)
    M = found.equivalence
    assert torch.equal(M[known.mask], known.values[known.mask])
    assert float(M.min()) >= 0
    assert float(M.sum(0).min()) >= low - 1e-9
    assert float(M.sum(0).max()) <= high + 1e-9
    rows = M.sum(1)
    assert float(found.residual) == pytest.approx(max(0, float(low - rows.min()), float(rows.max() - high)), abs=1e-12)


@settings(max_examples=4)
@given(seed=SEEDS, labelled=st.integers(0, 6))
def test_the_solution_is_symmetric_and_optimal(seed: int, labelled: int) -> None:
    """log M + A / nu is a sum of a term of the row and one of the column, wherever M is not known."""
    A, known = draw(seed, labelled=labelled)
    found = solve(A, known, 4, 4, rounds=1500)
    M, free = found.equivalence, ~known.mask
    torch.testing.assert_close(M, M.T, atol=1e-8, rtol=0)
    assert float(found.residual) < 1e-8
    left = (M[free].log() + A[free] / found.temperature).numpy()
    where = free.nonzero().numpy()
    design = np.zeros((len(where), 24))
    design[np.arange(len(where)), where[:, 0]] = 1
    design[np.arange(len(where)), 12 + where[:, 1]] = 1
    assert np.abs(design @ np.linalg.lstsq(design, left, rcond=None)[0] - left).max() < 1e-8


@settings(max_examples=4)
@given(seed=SEEDS)
def test_equal_sizes_make_the_reference_and_sums_of_rows_irrelevant(seed: int) -> None:
    A, known = draw(seed)
    extra = torch.rand(12, 1, generator=torch.Generator().manual_seed(seed)).double() / 12
    nu = float(A.abs().median())
    plain = solve(A, known, 4, 4, 300, nu).equivalence
    scaled = balance(A, known.mask, known.values, 4, 4, temperature=nu, reference=7.0, rounds=300).equivalence
    shifted = solve(A + extra + extra.T, known, 4, 4, 300, nu).equivalence
    torch.testing.assert_close(plain, scaled, atol=1e-9, rtol=0)
    torch.testing.assert_close(plain, shifted, atol=1e-9, rtol=0)


@settings(max_examples=10)
@given(seed=SEEDS, labelled=st.integers(0, 6), slack=st.sampled_from([0.0, 1.0]))
def test_in_logarithms_it_is_the_same(seed: int, labelled: int, slack: float) -> None:
    A, known = draw(seed, labelled=labelled)
    expected = solve(A, known, 4 - slack, 4 + slack, 20).equivalence
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(balancing, "_scaled", lambda *_: None)
        torch.testing.assert_close(solve(A, known, 4 - slack, 4 + slack, 20).equivalence, expected)


@pytest.mark.parametrize("nu", [1e-6, 1e-4])
def test_temperatures_at_which_numbers_underflow(nu: float) -> None:
    A, known = draw(2, labelled=4)
    found = solve(A, known, 4, 4, 300, nu)
    assert bool(found.equivalence.isfinite().all())
    assert float(found.equivalence.sum(0).sub(4).abs().max()) < 1e-9


def test_points_that_are_all_the_same() -> None:
    known = constraints(6).among(np.arange(6))
    found = solve(dissimilarity(torch.ones(6, 3), 0.1), known, 2, 2)
    torch.testing.assert_close(found.equivalence, torch.full((6, 6), 0.2).double().fill_diagonal_(1), atol=1e-6, rtol=0)


def test_separate_clusters_are_found() -> None:
    classes = np.arange(30) % 3
    features = torch.eye(3).double()[classes] + 0.05 * torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    M = solve(dissimilarity(features, 0.1), constraints(30).among(np.arange(30)), 10, 10).equivalence
    same = torch.from_numpy(classes[:, None] == classes)
    assert float(M[same].min()) > 0.5
    assert float(M[~same].max()) < 0.01


def test_problems_do_not_see_their_batch() -> None:
    drawn = [draw(seed, labelled=labelled) for seed, labelled in ((0, 0), (1, 3), (2, 5))]
    A, masks = torch.stack([a for a, _ in drawn]), torch.stack([known.mask for _, known in drawn])
    A[1] *= 1e4  # the temperature is each problem's own
    together = balance(A, masks, torch.stack([known.values for _, known in drawn]), 3, 5)
    for i, (_, known) in enumerate(drawn):
        alone = solve(A[i], known, 3, 5)
        torch.testing.assert_close(alone.equivalence, together.equivalence[i])
        torch.testing.assert_close(alone.residual, together.residual[i])
        torch.testing.assert_close(alone.temperature, together.temperature[i])


def test_points_may_come_in_any_order() -> None:
    A, known = draw(6, labelled=4)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    mixed = Known(known.mask[order][:, order], known.values[order][:, order])
    expected = solve(A, known, 3, 5).equivalence[order][:, order]
    torch.testing.assert_close(solve(A[order][:, order], mixed, 3, 5).equivalence, expected)


def test_with_all_known_nothing_is_left_to_find() -> None:
    A, _ = draw(0)
    labels = np.arange(12) % 3
    known = constraints(12, labels=labels).among(np.arange(12))
    found = solve(A, known, 4, 4)
    assert torch.equal(found.equivalence, torch.from_numpy(labels[:, None] == labels).double())
    assert float(found.residual) == 0


def test_no_gradient_flows_through_it() -> None:
    A, known = draw(0)
    M = solve(A.requires_grad_(), known, 4, 4).equivalence
    assert not M.requires_grad


@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_of_planted_clusters_at_a_moderate_penalty_ten_rounds_come_within_a_hundredth_of_one(scale: float) -> None:
    generator = np.random.default_rng(0)
    classes = np.arange(200) % 4
    features = torch.from_numpy(3 * scale * np.eye(4)[classes] + generator.normal(size=(200, 4)))
    known = constraints(200, labels=np.where(np.arange(200) < 40, classes, -1)).among(np.arange(200))
    A = dissimilarity(features, 1e-3)
    found = solve(A, known, 50, 50)
    assert float(found.residual) < 0.01 * 50
    more = solve(A, known, 50, 50, rounds=200)
    assert float(more.residual) < float(found.residual)
    values = [float(discriminative_objective(features, one.equivalence, 1e-3)) for one in (found, more)]
    assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_bounds_that_cannot_be_met() -> None:
    A, known = draw(0, labelled=12)
    with pytest.raises(InputError, match=r"4 of 12 points .*3: .*max_share"):
        solve(A, known, 1, 3)
    with pytest.raises(InputError, match=r"point 0 .*4 of 12 points, .*5"):
        solve(A, known, 5, 6)
    for low, high in ((5, 4), (-1, 4), (0, 0), (float("nan"), 4)):
        with pytest.raises(InputError, match="bounds"):
            solve(A, known, low, high)


@settings(max_examples=10)
@given(seed=SEEDS, count=st.integers(1, 9))
def test_the_temperature_is_the_median(seed: int, count: int) -> None:
    """The lower of two in the middle, the diagonal and what is known included."""
    A = torch.randn(2, count, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    known = torch.ones(count, count, dtype=torch.bool)
    found = balance(A, known, torch.eye(count), 0, count)
    torch.testing.assert_close(found.temperature, A.abs().flatten(1).median(dim=1).values)
