"""Verdicts: what a result says about a printed number."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.config.configs import EvaluateConfig, parse
from runs.tables.evidence import with_best
from runs.tables.judging import judge
from runs.tables.published import (
    published_table,
)
from runs.tables.table import Cell, SeedResult, Table, Tolerance
from tests.runs.made_up import evaluated

CONFIG = parse(EvaluateConfig, ["strategy=simpleshot"])[0]
SEEDS = tuple(SeedResult(seed, 0.65 + 0.01 * seed, 0.002, 10_000, f"run{seed}") for seed in (0, 1))
DIVERGED = tuple(SeedResult(seed, value, 1e300, 100, "run") for seed, value in ((0, 1e300), (1, -1e300)))


def printed(value=60.0, half_width=None, **changes):
    return {"published": value, "printed": f"{value:.2f}", "published_half_width": half_width, **changes}


def paper(interval="none", tasks=None, runs=None):
    base = published_table("thesis/4.4")
    return dataclasses.replace(base, interval=interval, tasks=tasks, runs=runs)


NOTHING = {"published": None}


def found(value, half_width=0.001, tasks=10_000, print_=None, **changes):
    fields = {"config": CONFIG, "results": (SeedResult(0, value, half_width, tasks),), **(print_ or printed())}
    return Cell(row="a", column="1-shot", **(fields | changes))


@pytest.mark.parametrize(
    ("cell", "table", "tolerance", "status"),
    [
        (found(0.6005), {}, {}, "reproduced"),  # within our own interval
        (found(0.61), {}, {}, "above"),
        (found(0.59), {}, {}, "below"),
        (found(0.61), {}, {"absolute": 1.0}, "reproduced"),
        (found(0.61), {}, {"factor": 1.1}, "reproduced"),
        (found(0.61, print_=printed(half_width=0.95)), {"interval": "ci95"}, {}, "reproduced"),
        (found(0.62, print_=printed(half_width=0.95)), {"interval": "ci95"}, {}, "above"),
        (found(0.61), {"tasks": 100}, {}, "reproduced"),  # 100 times fewer tasks: ten times the interval of the run
        (found(0.62), {"tasks": 100}, {}, "above"),
        # A deviation over 4 runs of 1 point is an interval of 0.98.
        (found(0.609, print_=printed(half_width=1.0)), {"interval": "std", "runs": 4}, {}, "reproduced"),
        (found(0.612, print_=printed(half_width=1.0)), {"interval": "std", "runs": 4}, {}, "above"),
        # Student's interval of two seeds would reach over 5 points here.
        (found(0.6, results=SEEDS), {}, {}, "above"),
        (found(0.6, results=SEEDS, print_=printed(65.5)), {}, {}, "reproduced"),
        (found(0.6, results=SEEDS, print_=printed(64.8)), {}, {}, "reproduced"),  # within their spread
        # What is no comparison.
        (found(0.5, print_=printed(corrected=50.0)), {}, {}, "reproduced"),
        (found(0.6, print_=printed(target=False)), {}, {}, "no target"),
        (found(0.6, print_=NOTHING), {}, {}, "not printed"),
        (found(0.6, results=(), print_=NOTHING), {}, {}, "not run"),  # a dash is run if its row has a method
        (found(0.6, differs=("tasks=9, not 10",)), {}, {}, "other protocol"),
        (found(0.6, results=()), {}, {}, "not run"),
        (found(0.6, results=(), config=None, obstacle="no such benchmark"), {}, {}, "cannot run here"),
        # The huge numbers of a diverged run must not stop the report; only an imported run can have -1 tasks.
        (found(0.6, results=DIVERGED[:1]), {}, {}, "reproduced"),
        (found(0.6, results=DIVERGED), {}, {}, "reproduced"),
        (found(0.61, tasks=-1), {"tasks": 600}, {}, "above"),
    ],
)
def test_the_rule(cell, table, tolerance, status):
    cell = dataclasses.replace(cell, tolerance=Tolerance(**tolerance))
    assert judge(cell, paper(**table))["verdict"] == status


def test_a_corrected_target_is_a_mean_over_the_tasks_of_the_table_that_prints_it():
    """The journal's 600 tasks, not the thesis's 10,000: an interval four times as wide."""
    corrected = printed(corrected=60.0, corrected_source="slk_fewshot/II")
    ours, theirs = 0.1, 0.1 * math.sqrt(10_000 / 600)
    for off, expected in ((ours + theirs - 0.01, "reproduced"), (ours + theirs + 0.01, "above")):
        cell = found((60 + off) / 100, ours / 100, print_=corrected)
        verdict = judge(cell, published_table("thesis/4.1"))
        assert verdict["verdict"] == expected
        assert "600 tasks" in verdict["why"]


@given(st.floats(0.01, 0.99), st.floats(1, 99), st.floats(0, 0.05), st.none() | st.floats(0, 5), st.floats(0, 3))
def test_a_verdict_agrees_with_the_sign_of_the_difference(value, target, width, theirs, tolerance):
    cell = found(value, width, print_=printed(target, theirs), tolerance=Tolerance(tolerance))
    verdict = judge(cell, paper("ci95"))
    difference = verdict["difference"]
    assert difference == pytest.approx(100 * value - target)
    apart = abs(difference) > max(100 * width + (theirs or 0), tolerance)
    assert verdict["verdict"] == (("above" if difference > 0 else "below") if apart else "reproduced")


@given(st.floats(0, 0.2), st.integers(0, 1000))
def test_the_best_is_bold_only_where_it_is_no_chance(lead, seed):
    random = np.random.default_rng(seed)
    common, own = random.normal(0.6, 0.1, 200), random.normal(0, 0.05, (2, 200))
    tasks = {"simpleshot": {0: evaluated(common + own[0])}, "kmeans": {0: evaluated(common + lead + own[1])}}
    cells = tuple(
        Cell(
            row=name,
            column="1-shot",
            config=parse(EvaluateConfig, [f"strategy={name}"])[0],
            results=(SeedResult(0, float(by_seed[0].accuracies.mean()), 0.01, 200, name),),
        )
        for name, by_seed in tasks.items()
    )
    marked = with_best(Table("t", "t", cells), lambda cell: tasks[cell.row])
    difference = tasks["kmeans"][0].accuracies - tasks["simpleshot"][0].accuracies
    significant = abs(difference.mean()) > 1.96 * difference.std() / math.sqrt(200)
    best = [cell.row for cell in marked.cells if cell.best]
    assert best == ([("kmeans" if difference.mean() > 0 else "simpleshot")] if significant else [])
