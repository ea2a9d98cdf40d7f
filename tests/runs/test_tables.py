"""Tables read back from the record: which run fills which cell, seeds, formats, figures."""

import math

import numpy as np
import pytest

from runs.config.configs import EvaluateConfig, parse
from runs.console.output import Console
from runs.figures.quickstart import accuracy_figure, descent_figure
from runs.figures.style import save
from runs.record.query import RunRow, config_tags, read_runs
from runs.stages.pipeline import evaluation
from runs.tables.filling import Record, filled
from runs.tables.formats import markdown, terminal
from runs.tables.grid import table_of
from runs.tables.table import Cell, Column, Row, SeedResult, Table


def read_table(name, configs, tracker):
    return filled(table_of(name, configs), tracker)


def missing(table):
    return [(cell.config.strategy.name, cell.config.sampler.options["shot"]) for cell in table.missing]


def spelt(headings):
    return tuple(map(str, headings))


def test_each_cell_holds_its_run(recorded, tracker, grid):
    table = read_table("tiny", grid(), tracker)
    assert spelt(table.rows) == ("simpleshot", "laplacianshot")
    assert spelt(table.columns) == ("1-shot", "3-shot")
    assert table.missing == []
    for place, result in recorded.items():
        cell = table.at(*place)
        assert cell.value == pytest.approx(result.accuracy)
        assert cell.half_width == pytest.approx(result.ci95)
        assert [r.run_id for r in cell.results] == [result.run_id]


@pytest.mark.parametrize("change", ["weight=0.2", "tasks=39", "query=4", "epochs=2", "split=validation", "noise=31.0"])
def test_a_run_that_differs_in_any_key_fills_no_cell(recorded, tracker, grid, change):
    table = read_table("tiny", grid(change), tracker)
    touched = [cell for (row, _), cell in table.cells.items() if change != "weight=0.2" or str(row) == "laplacianshot"]
    assert all(not cell.results for cell in touched)


def test_the_newest_run_wins_and_the_other_is_named(recorded, trained, tracker, grid):
    again = evaluation(grid(), trained, tracker, force=True)
    table = read_table("tiny", grid(), tracker)
    assert {cell.results[0].run_id for cell in table.cells.values()} == {r.run_id for r in again}
    old = recorded["simpleshot", "1-shot"].run_id
    assert any(old in note for note in table.notes)


def test_of_many_runs_left_aside_the_newest_are_named_and_the_others_counted(tracker):
    (config,) = parse(EvaluateConfig, ["strategy=simpleshot"])
    params = {name: str(value) for name, value in config.flat().items()}
    runs = [
        RunRow(
            f"run{i}", "", "evaluate/glyphs", 100 - i, None, "FINISHED", params, {"accuracy": 0.5}, {"data": "x"}, ""
        )
        for i in range(100)
    ]
    (note,) = Record(runs, tracker).filled(table_of("tiny", [config])).notes
    assert note.startswith("simpleshot, 1-shot: runs run1 run2 run3 and 96 more left out, run0 is newer")


def test_a_run_whose_tasks_are_of_its_seed_belongs_to_both_series(tracker):
    def runs_of(*keys):
        configs = parse(EvaluateConfig, ["strategy=simpleshot", *keys])
        params = [{name: str(value) for name, value in config.flat().items()} for config in configs]
        return [
            RunRow(f"run{i}", "", "evaluate/glyphs", 0, None, "FINISHED", of_run, {"accuracy": 0.5}, {"data": "x"}, "")
            for i, of_run in enumerate(params)
        ]

    def filling(runs, *keys):
        table = table_of("t", parse(EvaluateConfig, ["strategy=simpleshot", *keys]))
        (cell,) = Record(runs, tracker).filled(table).cells.values()
        return [result.run_id for result in cell.results]

    series = runs_of("seed=0,1,2", "task_seed=1")
    assert filling(series, "seed=0,1,2", "task_seed=1") == ["run0", "run1", "run2"]
    assert filling(series, "seed=0,1,2") == ["run1"]
    assert filling(runs_of("seed=0,1,2"), "seed=0,1,2", "task_seed=1") == ["run1"]


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


def test_what_varies_besides_shot_and_seed_names_the_rows(tracker, tiny_arguments):
    configs = parse(
        EvaluateConfig, [*tiny_arguments, "strategy=simpleshot,laplacianshot", "weight=0.1,0.7", "seed=0,1"]
    )
    table = read_table("tiny", configs, tracker)
    assert spelt(table.rows) == ("simpleshot", "laplacianshot weight=0.1", "laplacianshot weight=0.7")
    ways = parse(EvaluateConfig, [*tiny_arguments, "strategy=simpleshot", "way=2,3"])
    assert spelt(read_table("tiny", ways, tracker).columns) == ("1-shot way=2", "1-shot way=3")
    assert "way" not in read_table("tiny", ways, tracker).title


def test_columns_are_kinds_of_tasks(tracker, tiny_arguments):
    def columns(*arguments):
        kept = [item for item in tiny_arguments if not item.startswith("query")]
        configs = parse(EvaluateConfig, [*kept, "strategy=simpleshot,laplacianshot", *arguments])
        return spelt(read_table("tiny", configs, tracker).columns)

    assert columns("sampler=dirichlet", "shot=1,3") == ("1-shot", "3-shot")
    assert columns("sampler=balanced,dirichlet", "shot=1,3") == (
        *("1-shot", "3-shot"),
        *("1-shot dirichlet", "3-shot dirichlet"),
    )
    assert columns("sampler=dirichlet,whole_split,balanced", "concentration=0.5,2") == (
        *("1-shot dirichlet concentration=0.5", "1-shot dirichlet concentration=2.0"),
        *("whole_split", "1-shot"),
    )


def cell(*accuracies):
    config = parse(EvaluateConfig, ["strategy=simpleshot"])[0]
    return Cell(config, results=tuple(SeedResult(i, a, 0.01, 100, f"run{i}") for i, a in enumerate(accuracies)))


def test_over_seeds_the_interval_is_students():
    several = cell(0.5, 0.6, 0.7)
    assert several.value == pytest.approx(0.6)
    assert several.half_width == pytest.approx(
        4.302653 * 0.1 / math.sqrt(3), rel=1e-5
    )  # t(0.975, 2 degrees of freedom)
    assert cell(0.5).half_width == 0.01
    assert math.isnan(cell().value)


def small_table():
    row, one, five = Row("simpleshot", kind="inductive"), Column("1-shot"), Column("5-shot")
    cells = {(row, one): cell(0.5, 0.6, 0.7), (row, five): cell()}
    return Table("tiny", "what", (row,), (one, five), cells, notes=("a note",))


def test_an_experiment_is_one_line_a_strategy(capsys):
    terminal.show(small_table(), Console())
    title, _, *lines = capsys.readouterr().out.splitlines()
    assert title == "what, 100 tasks a seed, 3 seeds; accuracy in %, 95 % interval over seeds"
    assert [" ".join(line.split()) for line in lines if line.strip(" ─")] == [
        "strategy kind 1-shot 5-shot",
        "simpleshot inductive 60.00 ± 24.84 not run",
    ]
    assert markdown.markdown(small_table()) == (
        "what, 100 tasks a seed, 3 seeds; accuracy in %, 95 % interval over seeds.\n\n"
        "| strategy | kind | 1-shot | 5-shot |\n| --- | --- | ---: | ---: |\n"
        "| simpleshot | inductive | 60.00 ± 24.84 | not run |\n\nRemarks:\n\n- a note\n"
    )


def test_figures_are_pictures(tmp_path):
    """What they show was looked at by eye; here that they are drawn from what is given."""
    figure = accuracy_figure(small_table())
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["simpleshot"]
    assert "60.0" in [text.get_text() for text in figure.axes[0].texts]
    path = save(figure, tmp_path / "deep" / "accuracy.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_descent_figure_holds_still_where_a_task_has_stopped(tmp_path):
    trace = np.array([[3.0, 5.0], [2.0, 4.0], [np.nan, 3.5]])
    lines = descent_figure(trace, "some strategy").axes[0].get_lines()
    np.testing.assert_allclose(lines[0].get_ydata(), [1.0, 1e-6, 1e-6])
    np.testing.assert_allclose(lines[1].get_ydata(), [1.5, 0.5, 1e-6])
