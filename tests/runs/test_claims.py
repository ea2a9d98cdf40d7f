"""Claims of the papers, judged on outcomes that are known to fulfil or to break them."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fsl.evaluation.scores import ClassScores, Evaluation
from runs.config.configs import EvaluateConfig, parse
from runs.tables.cell import Cell, SeedResult
from runs.tables.claims import CLAIMS, findings_of
from runs.tables.claims.few_shot import Gain
from runs.tables.table import Table

TASKS = 400
NAMED = tuple(f"named_classes classes_min={least} classes_max={most}" for least, most in ((1, 4), (2, 10), (19, 19)))


def outcome(mean, *, seed=0, steps=5, trace=None):
    """Tasks whose accuracies spread around `mean`, the same spread for every outcome: paired, they differ exactly."""
    spread = np.random.default_rng(7).normal(0, 0.1, TASKS)
    classes = ClassScores(np.ones(1, dtype=np.int64), np.ones(1, dtype=np.int64))
    return {
        seed: Evaluation(mean + spread - spread.mean(), np.full(TASKS, steps), classes, ("a",), trace=trace),
    }


def table(outcomes):
    """A table of filled cells, (strategy, shot, sampler) -> outcome, and how to read it."""
    cells, read = [], {}
    for (strategy, shot, sampler), found in outcomes.items():
        shots = [] if sampler == "batches" else [f"shot={shot}"]
        named, *options = sampler.split()
        config = parse(EvaluateConfig, [f"strategy={strategy}", f"sampler={named}", *shots, *options])[0]
        results = tuple(SeedResult(seed, 0.5, 0.01, TASKS) for seed in found)
        cells.append(Cell(row=strategy, column=f"{shot}-shot {sampler}", config=config, results=results))
        read[cells[-1].place] = found
    return Table("t", "t", tuple(cells)), lambda cell: read[cell.place]


def verdicts(outcomes):
    return {(v.claim, v.setting): v.status for v in findings_of(*table(outcomes)) if v.status != "not run"}


def test_better_ties_and_worse():
    found = {("simpleshot", 1, "balanced"): outcome(0.6)}
    claim = ("LaplacianShot is better than SimpleShot", "1-shot balanced")
    noisy = outcome(0.6)
    noisy[0].accuracies[:] += np.where(np.arange(TASKS) % 2, 0.01, -0.01)
    for other, status in ((outcome(0.7), "holds"), (noisy, "tie"), (outcome(0.5), "fails")):
        assert verdicts({**found, ("laplacianshot", 1, "balanced"): other})[claim] == status


def test_a_claim_needs_its_runs():
    assert findings_of(*table({("simpleshot", 1, "balanced"): outcome(0.6)})) == []
    other_seed = {
        ("simpleshot", 1, "balanced"): outcome(0.6),
        ("laplacianshot", 1, "balanced"): outcome(0.7, seed=1),
    }
    assert not [claim for claim, _ in verdicts(other_seed) if "better" in claim]
    said = {finding.claim: finding.status for finding in findings_of(*table(other_seed))}
    assert said["LaplacianShot is better than SimpleShot"] == "not run"  # it was asked for
    assert "PT-MAP collapses under Dirichlet queries" not in said  # it was not


def test_steps_and_objective():
    falling = np.array([[3.0, 5.0], [2.0, 4.0], [np.nan, 3.5]])
    rising = np.array([[3.0, 5.0], [2.0, 4.0], [np.nan, 4.5]])
    for trace, steps, expected in ((falling, 14, "holds"), (rising, 15, "fails")):
        found = verdicts({("laplacianshot", 1, "balanced"): outcome(0.7, steps=steps, trace=trace)})
        assert found["the objective of LaplacianShot never rises", "1-shot balanced"] == expected
        assert found["LaplacianShot converges in fewer than 15 steps", "1-shot balanced"] == expected


def test_a_claim_about_few_classes_is_checked_on_these_tasks_only():
    found = {("zero_shot", 0, sampler): outcome(0.6) for sampler in (*NAMED, "named_classes")}
    found |= {("zlap", 0, sampler): outcome(0.5) for sampler in (*NAMED, "named_classes")}
    judged = {setting: status for (claim, setting), status in verdicts(found).items() if "zlap if 1 to 4" in claim}
    assert judged == {f"0-shot {NAMED[0]}": "holds"}


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(-1, 1))
def test_a_verdict_is_never_both_ways(value, error, bound):
    gain, opposite = Gain(value, error), Gain(-value, error)
    mirror = {"holds": "fails", "fails": "holds", "tie": "tie"}
    assert opposite.above(-bound) == mirror[gain.above(bound)]


def test_every_claim_names_strategies_that_exist():
    """With every strategy in every column each claim is judged somewhere."""
    from runs.config.groups import names

    found = {
        (strategy, shot, sampler): outcome(0.5, trace=np.zeros((2, 3)))
        for strategy in names("strategy")
        for shot, sampler in (
            *itertools.product((1, 5), ("balanced", "dirichlet")),
            *itertools.product((0,), ("batches", *NAMED)),
            *itertools.product((1, 2, 4), ("named_classes",)),
        )
    }
    assert {claim for claim, _ in verdicts(found)} == {claim.text for claim in CLAIMS["few_shot"]}
