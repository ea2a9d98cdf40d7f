"""Claims of the papers and tables of clusterings: what outcomes fulfil or break, and which runs fill which cell."""

import dataclasses
import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustering.foundation.streams import stream
from runs.cli import main
from runs.config.configs import ClusterConfig, EvaluateConfig, parse
from runs.stages.clustering.results import Trials
from runs.stages.clustering.stage import clustering
from runs.stages.fair.results import PATH, TradeOff
from runs.tables.claims import CLAIMS, findings_of
from runs.tables.claims.claim import Claim
from runs.tables.claims.clustering import of_order
from runs.tables.claims.fair import objective_at
from runs.tables.claims.few_shot import Gain
from runs.tables.evidence import look_up
from runs.tables.grid import clusterings_table
from runs.tables.paper import paper_table
from runs.tables.table import Cell, SeedResult, Table
from tests.runs.made_up import evaluated

TASKS = 400
NAMED = tuple(f"named_classes classes_min={least} classes_max={most}" for least, most in ((1, 4), (2, 10), (19, 19)))


def outcome(mean, *, seed=0, steps=5, trace=None):
    """Tasks whose accuracies spread around `mean`, the same spread for every outcome: paired, they differ exactly."""
    spread = np.random.default_rng(7).normal(0, 0.1, TASKS)
    return {seed: evaluated(mean + spread - spread.mean(), np.full(TASKS, steps), trace)}


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


EM, NEWTON = "pseudo_labels_em", "pseudo_labels_newton"


def claim(*methods: str, labels: bool = False) -> Claim:
    """The published claim about these methods."""
    (found,) = [
        one for one in CLAIMS["clustering"] if one.methods == methods and one.options.get("labels", False) == labels
    ]
    return found


def trials(accuracies: list[float], seeds: list[int], **more: list[float]) -> Trials:
    count = len(accuracies)
    whole: dict[str, Any] = {name: np.zeros(count) for name in ("objective", "criterion", "clusters", "iterations")}
    return Trials(
        settings=({},),
        setting=np.zeros(count, dtype=np.int64),
        start=np.arange(count),
        seeds=np.array(seeds),
        given=np.ones(count, dtype=bool),
        tried=np.zeros(count, dtype=bool),
        labels=np.zeros((count, 2), dtype=np.uint8),
        confidence=None,
        mode_indices=None,
        mode_movements=None,
        seconds=np.zeros((count, 3)),
        scores={"acc_hungarian": np.array(accuracies)} | {name: np.array(values) for name, values in more.items()},
        **whole,
    )


class Results:
    def __init__(self, **by_method: list[Trials]) -> None:
        self.by_method = by_method

    def of(self, method: str) -> list[Trials]:
        return self.by_method.get(method, [])


@pytest.mark.parametrize(
    ("theirs", "status"),
    [([0.70, 0.80, 0.90], "holds"), ([0.73, 0.80, 0.94], "tie"), ([0.8, 0.9, 1.0], "fails")],
)
def test_starts_are_paired_by_their_seed(theirs: list[float], status: str) -> None:
    ours = [trials([0.72, 0.83], [5, 6]), trials([0.93], [7])]
    (found,) = claim("entropy", "sela").check(Results(entropy=ours, sela=[trials(theirs[::-1], [7, 6, 5])]))
    assert found[1] == status
    assert "of the same 3 starts" in found[2]


def test_nothing_is_said_without_pairs() -> None:
    assert not list(claim("entropy", "sela").check(Results(entropy=[trials([0.7, 0.8], [1, 2])])))
    assert not list(claim("entropy", "sela").check(Results(entropy=[trials([0.7], [1])], sela=[trials([0.7], [2])])))


def test_with_known_labels_and_without_are_claims_apart() -> None:
    ours = [trials([0.1, 0.1], [5, 6], accuracy=[0.9, 0.8])]
    theirs = [trials([0.2, 0.3], [5, 6], accuracy=[0.7, 0.65])]
    (found,) = claim("entropy", "sela", labels=True).check(Results(entropy=ours, sela=theirs))
    assert found[1] == "holds"
    assert found[2] == "entropy 0.850, sela 0.675; of the same 2 starts +0.175 ± 0.050"
    assert not list(claim("entropy", "sela").check(Results(entropy=ours, sela=theirs)))
    without = [trials([0.2, 0.3], [5, 6])]
    assert not list(claim("entropy", "sela", labels=True).check(Results(entropy=without, sela=without)))


@pytest.mark.parametrize(
    ("means", "status"),
    [((0.3, 0.4, 0.5), "holds"), ((0.3, 0.6, 0.5), "fails"), ((0.5, 0.4, 0.3), "fails"), ((0.5, 0.4, 0.5), "tie")],
)
def test_accuracy_along_orders(means: tuple[float, ...], status: str) -> None:
    by_order = dict(zip((0.1, 1.0, 1000.0), means, strict=True))
    results = {of_order(order): [trials([mean, mean + 0.02], [1, 2])] for order, mean in by_order.items()}
    (found,) = claim(of_order(0.1), of_order(1000)).check(Results(**results))
    assert found[1] == status
    assert found[2].startswith(f"0.1: {means[0] + 0.01:.3f}, 1: ")
    assert not list(claim(of_order(0.1), of_order(1000)).check(Results(**{of_order(5.0): results["migd"]})))


LINEAR = ["max_iter=3000", "batch_size=250", "starts=6", "selection=null"]


@pytest.fixture(scope="session")
def settings(tmp_path_factory):
    """Of a table whose runs take a second: a small file as of Reuters (code), four heaps that lie near each other."""
    folder = tmp_path_factory.mktemp("codes")
    labels = np.arange(120) % 4
    values = stream(0, "codes").normal(size=(120, 10)) + 3 * np.eye(10)[labels]
    np.savez(folder / "reuters_code.npz", x=values, y=labels)
    (folder / "few.yaml").write_text("trials: 4\nshare: 0.2\nslk: {weight: [0.5, 0.65]}\n")
    return {"reuters_code.root": str(folder), "selection": f"{folder}/few.yaml"}


def table_of(name, settings):
    return paper_table(name, [f"{key}={value}" for key, value in settings.items()])


def cells_of(table, row, column):
    return {cell.metric: cell for cell in table.cells if (cell.row, cell.column) == (row, column)}


@pytest.fixture
def filled(kept, settings):
    """The table, once SLK-MS was run for it."""
    config = cells_of(table_of("thesis/2.2", settings), "SLK-MS", "Reuters")["nmi"].config
    (result,) = kept("table", lambda *where: clustering([config], *where))
    return result


def found_as(name, values):
    """The table with made-up results: by method and metric, (without labels, as labels select)."""

    def made_up(cell):
        known = values.get((cell.config.method.name, cell.metric)) if cell.config else None
        return {"results": (SeedResult(0, known[0], math.nan, 0, as_printed=known[1]),) if known else ()}

    return paper_table(name).mapped(made_up)


@pytest.mark.parametrize(
    ("slk", "kmeans", "status"), [(0.8, 0.5, "holds"), (0.6, 0.5, "fails"), (0.652, 0.5, "tie"), (0.3, 0.5, "fails")]
)
def test_claims_are_checked_on_what_labels_select(slk, kmeans, status):
    key = "acc_hungarian"
    values = {("slk_mean_shift", key): (0.1, slk), ("kmeans", key): (0.9, kmeans)}
    findings = findings_of(found_as("thesis/2.2", values), lambda _: {})
    (found,) = [f for f in findings if f.claim == "on MNIST slk_mean_shift is 0.15 above K-means in accuracy"]
    assert found.status == status
    assert f"{slk - kmeans:+.3f}" in found.evidence
    assert "without labels 0.100 and 0.900" in found.evidence
    (other,) = [f for f in findings if f.claim == "on MNIST slk_byproduct is 0.15 above K-means in accuracy"]
    assert other.status == "not run"
    assert not [f for f in findings_of(paper_table("thesis/2.3"), lambda _: {}) if f.claim == found.claim]


def test_the_print_is_held_against_what_labels_select(filled, tracker, settings):
    table = look_up(table_of("thesis/2.2", settings), tracker)
    metrics = filled.trials.metrics()
    cells = cells_of(table, "SLK-MS", "Reuters")
    assert {name for name, cell in cells.items() if cell.results} == {"nmi", "acc_hungarian", "seconds_optimise"}
    assert cells["nmi"].value == pytest.approx(metrics["nmi"])
    assert cells["nmi"].as_printed == pytest.approx(metrics["nmi_label_selected"])
    assert cells["nmi"].published == 0.43
    assert cells["nmi"].difference == pytest.approx(metrics["nmi_label_selected"] - 0.43)
    assert "nmi label selected" in cells["nmi"].why
    assert cells["seconds_optimise"].value == pytest.approx(metrics["seconds_optimise"])
    assert "audit" not in cells["nmi"].why
    others = [cell for cell in table.cells if cell.row != "SLK-MS"]
    assert not any(cell.results for cell in others)


def test_only_runs_of_the_same_config_points_and_seeds_fill_a_cell(filled, store, tracker, settings, tmp_path):
    def count(**changes):
        table = look_up(table_of("thesis/2.2", settings | changes), tracker)
        return sum(bool(cell.results) for cell in table.cells)

    assert count() == 3
    assert count(starts="11") == 0
    assert count(selection="null") == 0
    seeded = filled.config.replace(seed=5)
    clustering([seeded], store, tracker)
    table = look_up(table_of("thesis/2.2", settings), tracker)
    assert {tuple(r.seed for r in cell.results) for cell in table.cells} == {(), (0, 5)}
    # Without the file that the runs stand on, they are still found: the data need not be here.
    assert count(**{"reuters_code.root": str(tmp_path)}) == 3


def test_an_experiment_of_clusterings_has_a_table(tmp_path, store, tracker, capsys):
    experiment = tmp_path / "labels.yaml"
    experiment.write_text(
        "dataset: spirals\npoints: 30\nselection: null\nstarts: 2\nseed: 0,1\n"
        "each:\n- {method: 'kmeans,ncut', labels: null}\n- {method: seeded_kmeans, labels: 10}\n"
    )
    assert main(["table", str(experiment), f"results={store.root}", "--run-missing", "-y", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    values = {(cell["row_group"], cell["row"], cell["column"]): cell["reproduced"] for cell in cells}
    of_starts = {"ACC", "mean ACC of the starts", "NMI", "time of a start"}
    expected = {("no labels", method, name) for method in ("kmeans", "ncut") for name in of_starts}
    of_labels = of_starts - {"ACC"} | {"accuracy"}
    assert values.keys() == expected | {("10 labels", "seeded_kmeans", name) for name in of_labels}
    assert {cell["seeds"] for cell in cells} == {2}
    runs = clustering(parse(ClusterConfig, [f"experiment={experiment}"]), store, tracker)
    assert all(run.reused for run in runs)
    of_kmeans = [run.trials.metrics()["nmi"] for run in runs if run.config.method.name == "kmeans"]
    assert values["no labels", "kmeans", "NMI"] == pytest.approx(100 * np.mean(of_kmeans))


def test_no_claim_is_checked_on_a_method_with_several_settings():
    typed = ["dataset=digits", "method=entropy,miadm", "pseudo_labels=batch,epoch", *LINEAR]
    table = clusterings_table("t", parse(ClusterConfig, typed))
    result = SeedResult(0, 0.5, math.nan, 0, "0" * 32)
    several = table.mapped(
        lambda cell: {"results": (result,) if cell.config.method.options["pseudo_labels"] == "batch" else ()}
    )
    by_batch = dataclasses.replace(several, cells=tuple(cell for cell in several.cells if cell.results))
    of_two_starts = {0: trials([0.7, 0.8], [1, 2])}
    assert findings_of(by_batch, lambda _: of_two_starts)
    assert findings_of(several, lambda _: of_two_starts) == []


ROW = "Synthetic-unequal"
SETS = ("synthetic", "synthetic_unequal")
SETTINGS = {"n_init": "1", "max_iter": "10", "fairness_weight": "0,60"}  # of a second


@pytest.fixture
def filled_fair(kept):
    """The row of a synthetic set of Table 3.2, run: by method."""
    configs = [cell.fair for cell in table_of("thesis/3.2", SETTINGS).cells if cell.row == ROW]
    results = kept("row", lambda *where: clustering(configs, *where))
    return {result.config.method.name: result for result in results}


def test_the_printed_row_is_found_at_its_weight_and_the_fairest_beside_it(filled_fair, tracker):
    table = look_up(table_of("thesis/3.2", SETTINGS), tracker)
    found = filled_fair["fair_kmedian"].found
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


def test_other_weights_are_another_protocol(filled_fair, tracker):
    table = look_up(table_of("thesis/3.2", SETTINGS | {"fairness_weight": "0,30"}), tracker)
    ours, rival = cells_of(table, ROW, "Ours"), cells_of(table, ROW, "Backurs et. al.")
    assert not ours["objective"].results
    assert rival["objective"].results, "a rival has no weight, and its runs count whatever weights are asked for"


def made_up(**changes):
    values = {
        "weights": np.array([0.0, 1.0, 10.0]),
        "labels": np.zeros((3, 4), dtype=np.int64),
        "objective": np.array([1.0, 2.0, 4.0]),
        "fairness_error": np.array([3.0, 1.0, 0.0]),
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


def test_a_path_that_is_gone_fills_no_cell(filled_fair, store, tracker, notes):
    run_id = filled_fair["fair_kmedian"].run_id
    (path,) = [path for path in store.root.rglob(PATH) if run_id in str(path)]
    path.write_bytes(b"half a file")
    table = look_up(table_of("thesis/3.2", SETTINGS), tracker)
    assert not cells_of(table, ROW, "Ours")["objective"].results
    assert cells_of(table, ROW, "Backurs et. al.")["objective"].results
    assert "no cell is filled" in notes
