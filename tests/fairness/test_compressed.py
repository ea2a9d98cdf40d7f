"""The compressed step: the same as `descend` with the term, never a rise, and where it ends against other methods."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.optimiser.descent import descend
from clustering.optimiser.guard import Status
from fairness.groups import groups_of
from fairness.optimiser.compressed import Settled, settle
from fairness.optimiser.penalty import Penalty
from fairness.optimiser.points import Points
from fairness.optimiser.terms import GroupProportions
from tests.oracles.fair_clustering import objective


class Given:
    """Costs as a matrix (K, N): the rows are the numbers of its columns."""

    def __init__(self, costs):
        self.costs = costs

    def into(self, out, rows, norms):
        out.copy_(self.costs[:, rows[:, 0].long()])


def problem(seed, N, K, J, weight, block=None, dtype=torch.float64):
    drawn = np.random.default_rng(seed)
    codes = np.r_[np.arange(J), drawn.integers(0, J, N - J)]
    groups = groups_of(codes, N)
    costs = torch.from_numpy(drawn.normal(size=(K, N)) ** 2).to(dtype)
    rows, cells = torch.arange(N, dtype=dtype)[:, None], torch.from_numpy(groups.cells)
    if block:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("fairness.optimiser.points._BLOCK", block)
            points = Points(rows, cells, len(groups.membership), K)
    else:
        points = Points(rows, cells, len(groups.membership), K)
    logs = points.begin(costs.argmin(dim=0), 0.1)
    return points, logs, groups, costs, Penalty.of(groups, weight)


def assignments(points, logs):
    """(N, K) S0, in the order in which the points came."""
    found = points.rows.new_empty(points.count, points.clusters)
    for block, log in zip(points.blocks, logs, strict=True):
        found[points.order[block.at]] = log.T.exp()
    return found


def run(points, logs, costs, penalty, **options) -> Settled:
    return settle(
        partial(points.sweep, logs, Given(costs)),
        penalty,
        len(costs),
        spread=float(costs.max() - costs.min()),
        dtype=costs.dtype,
        **options,
    )


@settings(max_examples=8)
@given(
    seed=st.integers(0, 10_000),
    exponent=st.floats(-3, 6),
    K=st.integers(1, 5),
    J=st.integers(1, 6),
    block=st.sampled_from([None, 7]),
)
def test_it_is_the_step_of_the_one_optimiser(seed, exponent, K, J, block):
    points, logs, groups, costs, penalty = problem(seed, 40, K, J, 10.0**exponent, block)
    term = GroupProportions(
        torch.from_numpy(groups.membership[groups.cells]), torch.from_numpy(groups.target), penalty.weight
    )
    options = {"max_iterations": 12, "tolerance": 0.0, "gap_tolerance": 0.0}
    start = assignments(points, logs)
    explicit = descend(costs.T.contiguous(), [term], start=start, temperature=0.0, trace=True, **options)
    found = run(points, logs, costs, penalty, **options)
    points.take(logs, Given(costs), found.scale, found.shift)
    # Where no step is left that is more than rounding, the two round differently.
    if found.status == Status.MAX_ITERATIONS == int(explicit.status):
        torch.testing.assert_close(assignments(points, logs), explicit.assignments, rtol=0, atol=1e-9)
        assert found.gap == pytest.approx(float(explicit.gap), rel=1e-6, abs=1e-8)
    assert found.objective == pytest.approx(float(explicit.objective), rel=1e-9)


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), exponent=st.floats(-8, 6), K=st.integers(1, 6), J=st.integers(1, 6))
def test_the_objective_never_rises(seed, exponent, K, J):
    """At any weight, with groups of one point (every group has one, most have few more)."""
    points, logs, _, costs, penalty = problem(seed, 8 + J, K, J, 10.0**exponent)
    found = run(points, logs, costs, penalty, max_iterations=60, tolerance=0.0)
    trace = np.array(found.trace)
    assert np.isfinite(trace).all()
    size = trace[0] + penalty.weight * len(costs) * 10
    assert (np.diff(trace) <= 1e-12 * size).all()
    counts = found.totals.counts
    torch.testing.assert_close(counts.sum(dim=1), torch.bincount(torch.from_numpy(_cells(points))).double())


def _cells(points):
    return np.concatenate([np.full(block.at.stop - block.at.start, block.cell) for block in points.blocks])


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), weight=st.floats(0.1, 100))
def test_objective_and_sums_are_those_of_a_loop(seed, weight):
    points, logs, groups, costs, penalty = problem(seed, 15, 3, 2, weight)
    found = run(points, logs, costs, penalty, max_iterations=5)
    points.take(logs, Given(costs), found.scale, found.shift)
    S = assignments(points, logs).numpy()
    expected = objective(S, costs.T.numpy(), groups.cells, weight, e=1e-3)
    assert found.objective == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(S.sum(axis=1), 1, atol=1e-12)


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), exponent=st.floats(-2, 5))
def test_prices_are_the_slope_of_the_term(seed, exponent):
    drawn = np.random.default_rng(seed)
    frame = {"sex": list("ab" * 5), "race": list("ccddddddee")}
    penalty = Penalty.of(groups_of(frame, 10), 10.0**exponent)
    counts = torch.from_numpy(drawn.uniform(0.1, 3, (len(penalty.membership), 4)))
    there = penalty.at(counts)
    for c in range(len(counts)):
        for k in range(4):
            step = torch.zeros_like(counts)
            step[c, k] = 1e-5
            slope = (penalty.at(counts + step).value - penalty.at(counts - step).value) / 2e-5
            assert float(slope) == pytest.approx(float(there.prices[c, k]), rel=1e-5, abs=1e-7 * penalty.weight)
