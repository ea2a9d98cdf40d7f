"""Tables of clusterings: which tracked runs fill them, what is held against the print, and what is run for them."""

import json

import numpy as np
import pytest

from clustering.streams import stream
from runs.cli import main
from runs.clusterings import clustering
from runs.config import ClusterConfig, parse
from runs.tables.evidence import look_up
from runs.tables.paper import paper_table, recipe_of
from runs.tables.published import published_names

TABLES = [name for name in published_names() if recipe_of(name).clusters]


@pytest.fixture
def codes(tmp_path):
    """A file as of Reuters (code), small: four heaps that lie near each other."""
    labels = np.arange(120) % 4
    values = stream(0, "codes").normal(size=(120, 10)) + 3 * np.eye(10)[labels]
    np.savez(tmp_path / "reuters_code.npz", x=values, y=labels)
    return f"reuters_code.root={tmp_path}"


@pytest.fixture
def filled(store, tracker, codes):
    """The table, once SLK-MS was run for it."""
    (config,) = {
        cell.config.to_yaml(): cell.config
        for (row, column), cell in paper_table("thesis/2.2", [codes, "starts=10"]).cells.items()
        if row.name == "SLK-MS" and column.name == "Reuters"
    }.values()
    return clustering([config], store, tracker)[0]


def test_there_are_tables_of_clusterings():
    assert {"thesis/2.2", "slk/2", "slk_fewshot/IV"} <= {*TABLES}


@pytest.mark.parametrize("name", TABLES)
def test_every_method_of_a_recipe_is_one(name):
    runnable = [cell for cell in paper_table(name).cells.values() if cell.config]
    assert runnable
    for cell in runnable:
        cell.config.method.build()
        assert cell.config.method.options["normalize"] == "l2"
        assert cell.obstacle.startswith("needs "), "none of the data of these tables comes with the project"


def test_the_print_is_held_against_what_labels_select(filled, tracker, codes):
    table, _ = look_up(paper_table("thesis/2.2", [codes]), tracker)
    metrics = filled.trials.metrics()
    cells = {
        column.metric: cell
        for (row, column), cell in table.cells.items()
        if (row.name, column.name) == ("SLK-MS", "Reuters") and cell.results
    }
    assert set(cells) == {"nmi", "acc_hungarian", "seconds_optimise"}
    assert cells["nmi"].value == pytest.approx(metrics["nmi"])
    assert cells["nmi"].as_printed == pytest.approx(metrics["nmi_label_selected"])
    assert cells["nmi"].published.value == 0.43
    assert cells["nmi"].verdict.difference == pytest.approx(metrics["nmi_label_selected"] - 0.43)
    assert "nmi label selected" in cells["nmi"].verdict.why
    assert cells["seconds_optimise"].value == pytest.approx(metrics["seconds_optimise"])
    assert "audit" not in cells["nmi"].verdict.why
    others = [cell for (row, _), cell in table.cells.items() if row.name != "SLK-MS"]
    assert not any(cell.results for cell in others)


def test_only_runs_of_the_same_config_points_and_seeds_fill_a_cell(filled, store, tracker, codes, tmp_path):
    def count(*settings):
        table, _ = look_up(paper_table("thesis/2.2", [codes, *settings]), tracker)
        return sum(bool(cell.results) for cell in table.cells.values())

    assert count() == 3
    assert count("starts=11") == 0
    assert count("selection=null") == 0
    seeded = filled.config.replace(seed=5)
    clustering([seeded], store, tracker)
    table, _ = look_up(paper_table("thesis/2.2", [codes]), tracker)
    assert {tuple(r.seed for r in cell.results) for cell in table.cells.values()} == {(), (0, 5)}
    # Without the file that the runs stand on, they are still found: the data need not be here.
    (tmp_path / "reuters_code.npz").unlink()
    assert count() == 3


def test_on_another_data_set_equal_cells_are_one(store, tracker):
    settings = ["arms=3", "points=20", "starts=2", "selection=null"]
    empty = paper_table("thesis/2.2@spirals", settings)
    assert {(column.name, column.group) for column in empty.columns} == {("spirals", "")}
    configs = parse(ClusterConfig, ["dataset=spirals", "method=slk_mean_shift", "normalize=l2", *settings])
    clustering(configs, store, tracker)
    table, _ = look_up(empty, tracker)
    found = {(row.name, column.metric) for (row, column), cell in table.cells.items() if cell.results}
    assert found == {("SLK-MS", metric) for metric in ("nmi", "acc_hungarian", "seconds_optimise")}
    statuses = {cell.verdict.status for cell in table.cells.values() if cell.results}
    assert statuses == {"other protocol"}


def test_what_is_missing_is_run_and_shown(store, codes, capsys):
    typed = ["table", "slk_fewshot/IV", codes, f"results={store.root}", "starts=2", "selection=null"]
    assert main([*typed, "--run-missing"]) == 2, "nobody to ask"
    capsys.readouterr()
    assert main([*typed, "--run-missing", "-y", "--executor", "dask://here:8786"]) == 2
    assert "leave --executor out" in capsys.readouterr().err
    assert main([*typed, "--run-missing", "-y"]) == 0
    told = capsys.readouterr().err
    assert "slk_means reuters_code s0" in told
    assert "cannot be run: " in told
    assert "root=FOLDER" in told
    assert main([*typed, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    cells = records["cells"] if isinstance(records, dict) else records
    assert {cell["row"] for cell in cells if cell["runs"]} >= {"SLK-MS", "SLK-Means"}
    assert main([*typed, "--run-missing", "-y"]) == 0
    assert "running" not in capsys.readouterr().err, "nothing is left to be run"


def test_a_setting_that_no_cell_takes_is_told(store, capsys):
    assert main(["table", "thesis/2.2", f"results={store.root}", "shot=5"]) == 2
    assert "shot" in capsys.readouterr().err
    assert main(["table", "thesis/2.2@glyphs", f"results={store.root}"]) == 2
    assert "dataset" in capsys.readouterr().err
