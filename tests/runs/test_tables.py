"""Tables read back from the record: which run fills which cell, seeds, formats, figures."""

import math

import pytest

from runs.config.configs import EvaluateConfig, parse
from runs.record.query import RunRow, config_tags, read_runs
from runs.stages.pipeline import evaluation
from runs.tables.cell import Cell, SeedResult
from runs.tables.evidence import Record
from runs.tables.grid import table_of
from runs.tables.keys import cell_keys


def read_table(name, configs, tracker):
    table = table_of(name, configs)
    return Record.of(table, tracker).filled(table)


def missing(table):
    return [(cell.config.strategy.name, cell.config.sampler.options["shot"]) for cell in table.missing]


def test_each_cell_holds_its_run(recorded, tracker, grid):
    table = read_table("tiny", grid(), tracker)
    headings = [(row, shot) for row in ("simpleshot", "laplacianshot") for shot in ("1-shot", "3-shot")]
    assert [(cell.row_name, cell.column_name) for cell in table.ordered] == headings
    assert table.missing == []
    for place, result in recorded.items():
        cell = table.at(*place)
        assert cell.value == pytest.approx(result.accuracy)
        assert cell.half_width == pytest.approx(result.ci95)
        assert [r.run_id for r in cell.results] == [result.run_id]


@pytest.mark.parametrize("change", ["weight=0.2", "tasks=39", "query=4", "epochs=2", "split=validation", "noise=31.0"])
def test_a_run_that_differs_in_any_key_fills_no_cell(recorded, tracker, grid, change):
    table = read_table("tiny", grid(change), tracker)
    touched = [cell for cell in table.cells if change != "weight=0.2" or cell.row == "laplacianshot"]
    assert all(not cell.results for cell in touched)


def test_the_newest_run_wins_and_the_other_is_named(recorded, trained, tracker, grid):
    again = evaluation(grid(), trained, tracker, force=True)
    table = read_table("tiny", grid(), tracker)
    assert {cell.results[0].run_id for cell in table.cells} == {r.run_id for r in again}
    old = recorded["simpleshot", "1-shot"].run_id
    assert any(old in note for note in table.notes)


def test_a_run_whose_tasks_are_of_its_seed_belongs_to_both_series(tracker):
    def runs_of(*keys):
        configs = parse(EvaluateConfig, ["strategy=simpleshot", *keys])
        rows = []
        for i, config in enumerate(configs):
            params, tags = {"seed": str(config.seed)}, {"data": "x", "cell": cell_keys(config)}
            rows.append(
                RunRow(f"run{i}", "", "evaluate/glyphs", 0, None, "FINISHED", params, {"accuracy": 0.5}, tags, "")
            )
        return rows

    def filling(runs, *keys):
        table = table_of("t", parse(EvaluateConfig, ["strategy=simpleshot", *keys]))
        (cell,) = Record(runs, tracker).filled(table).cells
        return [result.run_id for result in cell.results]

    series = runs_of("seed=0,1,2", "task_seed=1")
    assert filling(series, "seed=0,1,2", "task_seed=1") == ["run0", "run1", "run2"]
    assert filling(series, "seed=0,1,2") == ["run1"]
    assert filling(runs_of("seed=0,1,2"), "seed=0,1,2", "task_seed=1") == ["run1"]


def test_deleted_and_failed_runs_fill_nothing(recorded, tracker, grid):
    tracker.client.delete_run(recorded["simpleshot", "1-shot"].run_id)
    tracker.client.set_terminated(recorded["laplacianshot", "3-shot"].run_id, "FAILED")
    assert missing(read_table("tiny", grid(), tracker)) == [("simpleshot", 1), ("laplacianshot", 3)]


def test_a_run_of_other_code_is_left_aside_by_name(recorded, tracker, grid):
    stale = recorded["simpleshot", "1-shot"].run_id
    tracker.client.set_tag(stale, "revisions", "strategy 2")
    table = read_table("tiny", grid(), tracker)
    assert missing(table) == [("simpleshot", 1)]
    assert any(stale in note and "code has changed" in note for note in table.notes)


def test_all_cells_of_a_benchmark_stand_on_the_same_images(recorded, tracker, grid):
    """Those of the newest run: what was on others is left out in every cell, not in its own alone."""
    newest = max(recorded, key=lambda place: tracker.get(recorded[place].run_id).info.start_time)
    tracker.client.set_tag(recorded[newest].run_id, "data", "fedcba9876543210")
    table = read_table("tiny", grid(), tracker)
    for place, result in recorded.items():
        assert bool(table.at(*place).results) == (place == newest)
        if place != newest:
            assert any(result.run_id in note and "other images" in note for note in table.notes)


@pytest.mark.parametrize(
    ("strange", "numbers", "whole"),
    [
        ({"seed": None}, {}, False),
        ({"seed": "abc"}, {}, False),
        ({}, {"accuracy": math.nan}, False),
        ({}, {"accuracy": math.inf}, False),
        ({}, {"tasks": math.nan, "accuracy_ci95": math.inf}, True),
    ],
)
@pytest.mark.parametrize("ours", [True, False])
def test_runs_that_others_wrote_are_no_danger(recorded, tracker, grid, strange, numbers, whole, ours):
    run = tracker.client.get_run(recorded["simpleshot", "1-shot"].run_id)
    (row,) = [row for row in read_runs(tracker, "evaluate/") if row.run_id == run.info.run_id]
    config = {name: value for name, value in {**row.params, **strange}.items() if value is not None}
    tags = {name: value for name, value in run.data.tags.items() if not name.startswith("config")}
    tags |= config_tags(config)
    tags = {name: value for name, value in tags.items() if ours or name != "data"}
    other = tracker.client.create_run(run.info.experiment_id, tags=tags).info.run_id
    for name, value in {**run.data.params, **strange}.items():
        if value is not None:
            tracker.client.log_param(other, name, value)
    for name, value in {**run.data.metrics, **numbers}.items():
        tracker.client.log_metric(other, name, value)
    tracker.client.set_terminated(other)
    table = read_table("tiny", grid(), tracker)
    cell = table.at("simpleshot", "1-shot")
    assert [result.run_id for result in cell.results] == [other if whole and ours else run.info.run_id]
    assert cell.value == pytest.approx(recorded["simpleshot", "1-shot"].accuracy)
    assert any(other in note for note in table.notes) or (whole and ours)


def cell(*accuracies):
    config = parse(EvaluateConfig, ["strategy=simpleshot"])[0]
    results = tuple(SeedResult(i, a, 0.01, 100, f"run{i}") for i, a in enumerate(accuracies))
    return Cell(row="a", column="b", config=config, results=results)


def test_over_seeds_the_interval_is_students():
    several = cell(0.5, 0.6, 0.7)
    assert several.value == pytest.approx(0.6)
    assert several.half_width == pytest.approx(
        4.302653 * 0.1 / math.sqrt(3), rel=1e-5
    )  # t(0.975, 2 degrees of freedom)
    assert cell(0.5).half_width == 0.01
    assert math.isnan(cell().value)
