"""Tables of fair clustering: which weight fills a cell, which the print is held against, and what is claimed."""

import math

import numpy as np
import pytest

from runs.stages.fair.results import TradeOff
from runs.stages.fair.stage import fair_clustering
from runs.tables.cell import SeedResult
from runs.tables.claims import findings_of
from runs.tables.claims.fair import objective_at
from runs.tables.evidence import look_up
from runs.tables.papers.paper import paper_table
from tests.runs.records import copy_results

ROW = "Synthetic-unequal"
SETS = ("synthetic", "synthetic_unequal")


SETTINGS = {"n_init": "1", "max_iter": "10", "fairness_weight": "0,60"}  # of a second


def table_of(settings):
    return paper_table("thesis/3.2", [f"{key}={value}" for key, value in settings.items()])


def cells_of(table, row, columns):
    return {cell.metric: cell for cell in table.cells if (cell.row, cell.column) == (row, columns)}


@pytest.fixture(scope="session")
def row_results(results_of):
    """A results folder with the row of a synthetic set of Table 3.2, and its results. Copy it, do not touch it."""
    configs = [cell.fair for cell in table_of(SETTINGS).cells if cell.row == ROW]
    root, (results, failed) = results_of("row", lambda *where: fair_clustering(configs, *where))
    assert not failed
    return root, results


@pytest.fixture
def filled(store, row_results):
    """The row of a synthetic set of Table 3.2, run: by method."""
    root, results = row_results
    copy_results(root, store)
    return {result.config.method.name: result for result in results}


def test_the_printed_row_is_found_at_its_weight_and_the_fairest_beside_it(filled, tracker):
    table = look_up(table_of(SETTINGS), tracker)
    found = filled["fair_kmedian"].found
    at = found.weights.tolist().index(60)
    ours = cells_of(table, ROW, "Ours")
    for metric, printed, of in (
        ("objective", found.objective[at], found.objective),
        ("fairness_error", found.fairness_error[at], found.fairness_error),
        ("balance", found.balance_mean[at], found.balance_min),
    ):
        cell = ours[metric]
        assert cell.value == pytest.approx(of[found.chosen])
        assert cell.as_printed == pytest.approx(printed)
        assert cell.verdict == "other protocol"
        assert cell.difference == pytest.approx(printed - cell.published)
    assert ours["objective"].scored == "weight 60"
    assert ours["balance"].scored == "balance mean at weight 60"
    assert cells_of(table, ROW, "Backurs et. al.")["balance"].scored == "balance mean"


def test_other_weights_are_another_protocol(filled, tracker):
    table = look_up(table_of(SETTINGS | {"fairness_weight": "0,30"}), tracker)
    ours, rival = cells_of(table, ROW, "Ours"), cells_of(table, ROW, "Backurs et. al.")
    assert not ours["objective"].results
    assert rival["objective"].results, "a rival has no weight, and its runs count whatever weights are asked for"


def made_up(**changes):
    values = {
        "weights": np.array([0.0, 1.0, 10.0]),
        "labels": np.zeros((3, 4), dtype=np.int64),
        "objective": np.array([1.0, 2.0, 4.0]),
        "fairness_error": np.array([3.0, 1.0, 0.0]),
        "soft_error": np.full(3, np.nan),
        "balance_min": np.zeros(3),
        "balance_mean": np.zeros(3),
        "group_counts": np.ones((3, 2, 2), dtype=np.int64),
        "group_names": np.array(["a", "b"]),
        "attributes": np.zeros(2, dtype=np.int64),
        "target": np.full(2, 0.5),
        "seconds": np.zeros(3),
        "iterations": np.ones(3, dtype=np.int64),
        "converged": np.ones(3, dtype=bool),
        "unfair_objective": np.array(1.0),
        "history_objective": np.array([5.0, 4.0, 9.0, 8.0]),
        "history_weight": np.array([1.0, 1.0, 10.0, 10.0]),
        "history_step": np.array([1, 1, 2, 2]),
    }
    return TradeOff(**(values | changes))


ONE_POINT = {"weights": np.array([math.nan]), "objective": np.array([20.0]), "fairness_error": np.array([0.5])}


def judged(paths):
    """The claims on the synthetic sets of Table 3.2, of made-up paths by method."""

    def known(cell):
        return cell.fair is not None and cell.fair.dataset.name in SETS and cell.fair.method.name in paths

    run = (SeedResult(0, 1.0, math.nan, 0),)
    table = paper_table("thesis/3.2").mapped(lambda cell: {"results": run if known(cell) else ()})
    findings = findings_of(table, lambda cell: {0: paths[cell.fair.method.name]})
    return {finding.claim: finding for finding in findings if finding.setting in (*SETS, "")}


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"fairness_error": np.array([0.0, 1.0, 3.0])}, "the fairness error of fair_kmedian falls as the weight grows"),
        ({"objective": np.array([4.0, 2.0, 1.0])}, "the objective of fair_kmedian rises as the weight grows"),
        ({"history_objective": np.array([5.0, 6.0, 9.0, 8.0])}, "E of fair_kmedian never rises"),
        ({"fairness_error": np.array([3.0, 1.0, 0.5])}, "fair_kmedian is as fair as is printed"),
        (
            {"objective": np.array([100.0, 200.0, 400.0])},
            "at the printed error fair_kmedian has no larger an objective than is printed",
        ),
        (
            {"objective": np.array([30.0, 40.0, 50.0])},
            "at the error of backurs fair_kmedian has no larger an objective",
        ),
    ],
)
def test_a_claim_that_does_not_hold_fails(change, claim):
    rival = made_up(**ONE_POINT, group_counts=np.ones((1, 2, 2), dtype=np.int64))
    assert judged({"fair_kmedian": made_up(), "backurs": rival})[claim].status == "holds"
    assert judged({"fair_kmedian": made_up(**change), "backurs": rival})[claim].status == "fails"
    assert judged({})[claim].status == "not run"


def test_a_weight_that_loses_a_cluster_supports_no_claim():
    counts = np.ones((3, 2, 2), dtype=np.int64)
    counts[2, :, 0] = 0
    lost = made_up(group_counts=counts)
    assert objective_at(lost, 0.0) is None
    assert judged({"fair_kmedian": lost})["fair_kmedian is as fair as is printed"].status == "fails"
    rival = made_up(**ONE_POINT, group_counts=counts[2:])
    assert rival.fairest is None
    about = "at the error of backurs fair_kmedian has no larger an objective"
    assert judged({"fair_kmedian": made_up(), "backurs": rival})[about].status == "not run"
