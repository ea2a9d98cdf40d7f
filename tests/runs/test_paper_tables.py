"""Tables of papers: which config fills which cell, and what is typed."""

import pytest

from clustering.foundation.errors import InputError
from runs.config.fair import METRICS
from runs.config.overrides import values
from runs.tables.layout import lines
from runs.tables.paper import WEIGHT, paper_table, recipe_of
from runs.tables.published import (
    published_names,
    published_table,
)


@pytest.mark.parametrize("name", published_names())
def test_every_printed_number_has_its_cell(name):
    table = paper_table(name)
    assert [cell.printed for cell in table.cells if cell.printed] == [c.printed for c in published_table(name).numbers]
    assert all(cell.config or cell.obstacle for cell in table.cells)


def test_what_is_typed_goes_over_the_paper_and_is_another_protocol():
    table = paper_table("thesis/4.4", ["tasks=600", "mini.root=/some/where", "seed=0,1", "batch=7"])
    cell = table.at("ResNet-18 N(Y)", "mini-ImageNet 1-shot")
    assert cell.differs == ("tasks=600, not 10000",)
    assert cell.config.benchmark.options["root"] == "/some/where"
    assert not cell.obstacle
    assert {config.seed for config in table.configs} == {0, 1}
    assert paper_table("thesis/4.4", ["shot=5"]).at("ResNet-18 N(Y)", "mini-ImageNet 1-shot").differs == (
        "sampler.shot=5, not 1",
    )


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("thesis/4.9", [], "thesis/4."),
        ("thesis/4.4@glyfs", [], "glyphs"),
        ("thesis/4.4", ["taks=3"], "tasks"),
        ("thesis/4.4", ["tasks=3,4"], "one value"),
        ("thesis/2.2", ["tasks=3"], "tasks"),
    ],
)
def test_mistakes(name, settings, words):
    with pytest.raises(InputError, match=words):
        paper_table(name, settings)


@pytest.mark.parametrize(
    ("text", "words"),
    [("alll: {way: 5}", "alll: unknown key$"), ("instead: {SimpleShot: no}", "instead, SimpleShot: .* valid string")],
)
def test_a_wrong_recipe_names_the_file_and_the_key(tmp_path, monkeypatch, text, words):
    (tmp_path / "table" / "thesis").mkdir(parents=True)
    (tmp_path / "table" / "thesis" / "4.1.yaml").write_text(text + "\n")
    monkeypatch.setattr("runs.config.groups.folder", lambda: tmp_path)
    with pytest.raises(InputError, match=rf"4\.1\.yaml, {words}"):
        recipe_of.__wrapped__("thesis/4.1")


@pytest.mark.parametrize("name", published_names())
def test_a_recipe_names_headings_and_metrics_of_the_print(name):
    recipe, printed = recipe_of(name), published_table(name)
    rows, columns = {row.name for row in printed.rows}, {column.name for column in printed.columns}
    metrics = {column.metric for column in printed.columns}
    of_rows, of_columns = rows | {r.group for r in printed.rows}, columns | {c.group for c in printed.columns}
    assert {*recipe.columns} <= of_columns
    assert {*recipe.rows} <= of_rows
    assert {*recipe.scored} <= of_rows | metrics
    assert {*recipe.instead} <= of_rows | of_columns
    assert {*recipe.metrics, *recipe.tolerance} <= columns | metrics
    for part in (recipe.at, recipe.cells, recipe.cannot):
        assert {*part} <= rows
        assert {heading for cells in part.values() for heading in cells} <= columns
    assert not recipe.at or recipe.verb == "fair"
    for row, heading, place in ((row, *item) for row, cells in recipe.at.items() for item in cells.items()):
        of_heading = [cell for cell in printed.cells if (cell.row, cell.column) == (row, heading)]
        shown = set(map(recipe.metric, of_heading))
        assert {*place} <= shown | {WEIGHT}
        assert {place[metric] for metric in shown & place.keys()} <= {*METRICS}
        if WEIGHT in place:
            path = values(WEIGHT, recipe.settings(of_heading[0])[WEIGHT])[0].value
            assert values(WEIGHT, place[WEIGHT])[0].value in path


def test_rows_are_quoted_in_the_print_alone():
    def labels(name):
        return {line.label.text for line in lines(paper_table(name))}

    assert {"SimpleShot (rerun)", "BD-CSPN (quoted)"} <= labels("thesis/4.1")
    assert {"SimpleShot", "BD-CSPN"} <= labels("thesis/4.1@glyphs")


def test_headings_on_other_data_are_shared_where_their_cells_are_equal():
    table = paper_table("thesis/4.4@glyphs")
    assert {cell.row_group for cell in table.cells} == {""}, "all networks of the print are the small one"
    assert {column[:2] for column in table.columns} == {("glyphs", "1-shot"), ("glyphs", "5-shot")}
    assert len(table.cells) == 2 * len({cell.row for cell in table.cells})
