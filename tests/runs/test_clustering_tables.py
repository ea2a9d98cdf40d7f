"""Tables of clusterings: which tracked runs fill them, what is held against the print, and what is run for them."""

import dataclasses
import json
import math

import numpy as np
import pytest

from clustering.foundation.streams import stream
from runs.cli import main
from runs.config.configs import ClusterConfig, parse
from runs.stages.clustering.stage import clustering
from runs.tables.cell import SeedResult
from runs.tables.claims import findings_of
from runs.tables.evidence import look_up
from runs.tables.grid import clusterings_table
from runs.tables.papers.paper import paper_table
from tests.runs.records import copy_results
from tests.runs.test_entropy_claims import trials

LINEAR = ["max_iter=3000", "batch_size=250", "starts=6", "selection=null"]


@pytest.fixture(scope="session")
def codes(tmp_path_factory):
    """A file as of Reuters (code), small: four heaps that lie near each other."""
    folder = tmp_path_factory.mktemp("codes")
    labels = np.arange(120) % 4
    values = stream(0, "codes").normal(size=(120, 10)) + 3 * np.eye(10)[labels]
    np.savez(folder / "reuters_code.npz", x=values, y=labels)
    return f"reuters_code.root={folder}"


@pytest.fixture(scope="session")
def settings(codes, tmp_path_factory):
    """Of a table whose runs take a second, by key."""
    path = tmp_path_factory.mktemp("selection") / "few.yaml"
    path.write_text("trials: 4\nshare: 0.2\nslk: {weight: [0.5, 0.65]}\n")
    return dict(text.split("=", 1) for text in (codes, f"selection={path}"))


def table_of(settings):
    return paper_table("thesis/2.2", [f"{key}={value}" for key, value in settings.items()])


@pytest.fixture(scope="session")
def table_results(results_of, settings):
    """A results folder with the run of SLK-MS for the table, and its result. Copy it, do not touch it."""
    (config,) = {
        cell.config.to_yaml(): cell.config
        for cell in table_of(settings).cells
        if (cell.row, cell.column) == ("SLK-MS", "Reuters")
    }.values()
    return results_of("table", lambda *where: clustering([config], *where))


@pytest.fixture
def filled(store, table_results):
    """The table, once SLK-MS was run for it."""
    root, (result,) = table_results
    copy_results(root, store)
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
    table = look_up(table_of(settings), tracker)
    metrics = filled.trials.metrics()
    cells = {
        cell.metric: cell for cell in table.cells if (cell.row, cell.column) == ("SLK-MS", "Reuters") and cell.results
    }
    assert set(cells) == {"nmi", "acc_hungarian", "seconds_optimise"}
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
        table = look_up(table_of(settings | changes), tracker)
        return sum(bool(cell.results) for cell in table.cells)

    assert count() == 3
    assert count(starts="11") == 0
    assert count(selection="null") == 0
    seeded = filled.config.replace(seed=5)
    clustering([seeded], store, tracker)
    table = look_up(table_of(settings), tracker)
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
