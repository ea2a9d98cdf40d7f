"""The papers: their numbers in the package, their experiments line by line, which config fills which cell, verdicts."""

import csv
import dataclasses
import functools
import json
import math
import os
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import jsonschema
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.backbones import OWN
from fsl.benchmarks.augmentation import Augmentation
from fsl.evaluation.scores import ClassScores, Evaluation
from runs.config import groups
from runs.config.configs import EvaluateConfig, TrainConfig, parse
from runs.config.fair import METRICS
from runs.config.groups import option
from runs.config.overrides import values
from runs.tables.cell import Cell, SeedResult, Tolerance
from runs.tables.evidence import with_best
from runs.tables.judging import judge
from runs.tables.layout import lines
from runs.tables.papers.paper import paper_table
from runs.tables.papers.published import (
    Erratum,
    build,
    causes,
    errata,
    figures,
    published_names,
    published_table,
    table_from,
    table_schema,
    works,
)
from runs.tables.papers.recipe import WEIGHT, recipe_of
from runs.tables.table import Table


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


def scores(values):
    classes = ClassScores(np.ones(1, dtype=np.int64), np.ones(1, dtype=np.int64))
    return {0: Evaluation(np.asarray(values), np.ones(len(values), dtype=np.int64), classes, ("a",))}


@given(st.floats(0, 0.2), st.integers(0, 1000))
def test_the_best_is_bold_only_where_it_is_no_chance(lead, seed):
    random = np.random.default_rng(seed)
    common, own = random.normal(0.6, 0.1, 200), random.normal(0, 0.05, (2, 200))
    tasks = {"simpleshot": scores(common + own[0]), "kmeans": scores(common + lead + own[1])}
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


TABLES = [published_table(name) for name in published_names()]


FOLDER = resources.files("runs") / "published"


def numbers():
    for table in TABLES:
        for cell in table.numbers:
            yield table, cell


APART = ("rs_transclip", "transclip", "stata")  # works whose numbers are not in cells.csv


def test_every_number_of_the_source_is_there_exactly_once():
    source = Path(os.environ.get("TRANSDUCE_DATA", "none")).parent / "published" / "cells.csv"
    if not source.is_file():
        pytest.skip("no cells.csv beside $TRANSDUCE_DATA")
    with source.open(newline="", encoding="utf-8") as file:
        wanted = Counter(
            (*(row[key] for key in ("work", "table", "row_group", "row", "column_group", "column", "metric")),
             row["value"], row["ci"], row["unit"], row["kind"], "tilde" in row["note"])
            for row in csv.DictReader(file)
        )  # fmt: skip
    found = Counter()
    for table, cell in numbers():
        if table.work in APART:
            continue
        digits, _, beside = cell.printed.lstrip("~").replace(" ± ", " (").rstrip(")").partition(" (")
        number = table.name.partition("/")[2]
        place = (table.work, number, *cell.place)
        found[(*place, digits, beside, cell.unit, cell.kind, cell.printed.startswith("~"))] += 1
        assert cell.published == float(digits)
        assert cell.published_half_width == (float(beside) if beside else None)
    assert found == wanted


def heading(cell):
    """Method, network, data and shots of a cell as all works would write them; "" where it has no such heading."""
    method = {"N(Y)+L(Y)+rectified prototype": "LaplacianShot"}.get(cell.row, cell.row.partition(" (")[0])
    return method, cell.row_group.partition(";")[0], cell.column_group.replace("-", ""), cell.column, cell.metric


def test_corrected_targets_are_what_their_source_prints():
    corrected = [(table, cell) for table, cell in numbers() if cell.corrected is not None]
    for table, cell in corrected:
        here = heading(cell)
        printed = {
            other.published
            for source, other in numbers()
            if source.name == cell.corrected_source
            and all(one in ("", two) for one, two in zip(here, heading(other), strict=True))
        }
        place = f"{table.name}, {cell.row_name}, {cell.column_name}"
        assert cell.corrected in printed, f"{place}: corrected to {cell.corrected}, but its source prints {printed}"
        assert len(printed) == 1 or "" in here, f"{place}: its source prints {printed}"
    count = len(corrected)
    assert count == 16, "the number of corrections, to be changed with a new one"


def test_errata_point_into_tables_and_figures():
    names, drawn = published_names(), {figure.name for figure in figures()}
    for erratum in errata().values():
        assert erratum.where
        for place in erratum.where:
            assert set(place.figures) <= drawn
            assert (place.table in names) != bool(place.figures)
            if place.table:
                assert erratum.id in published_table(place.table).errata


def test_every_file_is_listed_and_every_work_has_a_title():
    files = {f"{path.parent.name}/{path.stem}" for path in Path(str(FOLDER)).glob("*/*.yaml")}
    assert files == set(published_names())
    assert list(works()) == list(dict.fromkeys(table.work for table in TABLES))


def test_an_unknown_name_gets_the_nearest_right_one():
    with pytest.raises(InputError, match=r"'thesis/4\.1'"):
        published_table("thesis/4,1")


def raw(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


WRONG = [
    (lambda t: t.update(colums=[]), "thesis/4.1.yaml, colums: unknown key$"),
    (lambda t: t.update(interval="sem"), "interval: .*'sem'"),
    (lambda t: t["columns"][0].update(metric=3), "columns, 1, metric: .*, not 3"),
    (lambda t: t["columns"][0].pop("better"), "columns, 1, better: field required$"),
    (lambda t: t["rows"][2].update(kind="mine"), "rows, 3, kind: .*'mine'"),
    (lambda t: t["rows"][0]["values"].__setitem__(0, 49.61), "rows, 1, values, 1.*49.61"),
    (lambda t: t["rows"][0].pop("kind"), "row 1 .MAML.: give the row or its columns a kind .own, rerun"),
    (lambda t: t["rows"][3]["values"].pop(), r"row 4 \(MatchingNet\): 3 values for 4 columns"),
    (lambda t: t["rows"][0]["values"].__setitem__(0, "49.61 (0.92)"), r"row 1 \(MAML\): '49.61 \(0.92\)'"),
]


@pytest.mark.parametrize(("change", "says"), WRONG)
def test_a_wrong_file_is_refused_with_the_place(change, says):
    content = raw("thesis/4.1")
    change(content)
    with pytest.raises(InputError, match=says):
        table_from("thesis/4.1", content)


@pytest.fixture(scope="module")
def schema():
    """That of the models; the file that editors read is the same: to renew it, write `table_schema()` as JSON."""
    content = json.loads((FOLDER / "table.schema.json").read_text(encoding="utf-8"))
    assert content == table_schema()
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@pytest.mark.parametrize("name", published_names())
def test_every_file_is_as_the_schema_says(name, schema):
    schema.validate(raw(name))
    assert (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=../table")


@pytest.mark.parametrize("change", [{"severity": "mild"}, {"where": [{"row": "MAML"}]}, {"why": "because"}])
def test_a_wrong_erratum_is_refused(change):
    content = {"id": "E34", "where": [{"table": "thesis/4.1"}], "severity": "high", "text": "text"}
    assert build(Erratum, content, "here").id == "E34"
    with pytest.raises(InputError, match=f"here, {next(iter(change))}"):
        build(Erratum, content | change, "here")


def test_places_hold_cells_and_headings_are_apart():
    places = [place for one in (*errata().values(), *causes().values()) for place in one.where if place.table]
    for place in places:
        table = published_table(place.table)
        known = [{row.group for row in table.rows}, {row.name for row in table.rows}]
        known += [{getattr(column, name) for column in table.columns} for name in ("group", "name", "metric")]
        assert all({*names} <= right for names, right in zip(place.names, known, strict=True)), place
        assert any(place.holds(cell) for cell in table.cells), place
    for table in TABLES:
        headings = [(one.group, one.name, one.metric) for one in table.columns]
        headings += [(one.group, one.name) for one in table.rows]
        assert max(Counter(headings).values(), default=1) == 1, table.name
        assert {group for row in table.rows for group in row.column_groups} <= {one.group for one in table.columns}
        assert all(entry.source in published_names() and entry.erratum in errata() for entry in table.corrected)
        kinds = {row.kind for row in table.rows}, {column.kind for column in table.columns}
        assert {None} in kinds or not table.numbers
        assert None not in kinds[kinds[0] == {None}] or not table.numbers


def test_no_cell_has_two_causes_and_pages_are_there():
    cells = Counter(
        (place.table, cell.place)
        for cause in causes().values()
        for place in cause.where
        for cell in published_table(place.table).cells
        if place.holds(cell)
    )
    assert cells
    assert set(cells.values()) == {1}
    pages = [cause.evidence.partition(",")[0] for cause in causes().values() if cause.evidence.startswith("docs/")]
    assert [page for page in pages if not (Path(__file__).parents[2] / page).is_file()] == []


class Trained(NamedTuple):
    """A base training: benchmark, network, epochs, epochs at which the rate falls, images a batch."""

    benchmark: str
    backbone: str
    epochs: int = 90
    milestones: tuple[int, ...] = (45, 66)
    batch: int = 256


PAPERS = {
    "mini_resnet18": Trained("mini", "resnet18_84"),
    "mini_mobilenet": Trained("mini", "mobilenet_84"),
    "mini_wrn": Trained("mini", "wrn28_10", epochs=120, milestones=(60, 90), batch=128),
    "mini_densenet": Trained("mini", "densenet121_84", batch=100),
    "mini_to_cub": Trained("mini", "resnet18_84"),
    "tiered_resnet18": Trained("tiered", "resnet18_84", milestones=(30, 60)),
    "tiered_mobilenet": Trained("tiered", "mobilenet_84", milestones=(30, 60)),
    "tiered_wrn": Trained("tiered", "wrn28_10", milestones=(30, 60), batch=128),
    "tiered_densenet": Trained("tiered", "densenet121_84", milestones=(30, 60), batch=100),
    "cub_resnet18": Trained("cub", "resnet18_84"),
    "cub_wrn": Trained("cub", "wrn28_10", batch=128),
    "inat_resnet18": Trained("inat", "resnet18_84", milestones=(30, 60)),
    "inat_resnet50": Trained("inat", "resnet50_84", milestones=(30, 60)),
    "inat_wrn": Trained("inat", "wrn28_10", milestones=(30, 60), batch=128),
}


OTHERS = {"cifar_fs": Trained("cifar_fs", "resnet12"), "fc100": Trained("fc100", "resnet12")}


ALIKE = {
    "learning_rate": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "classifier": "linear",
    "label_smoothing": 0.1,
    "schedule": "step",
    "warmup": 0.0,
    "crop": None,
    "jitter": 1.0,
    "validation_tasks": 500,
}


@functools.cache
def of(name):
    found = parse(EvaluateConfig, [f"experiment={name}"])
    (trained,) = {config.training_config().to_yaml(): config.training_config() for config in found}.values()
    return trained, found


@pytest.mark.parametrize("name", [*PAPERS, *OTHERS])
def test_base_training(name):
    trained, _ = of(name)
    told, options = {**PAPERS, **OTHERS}[name], trained.training.options
    assert (
        Trained(
            trained.benchmark.name,
            trained.backbone.name,
            options["epochs"],
            options["milestones"],
            options["batch_size"],
        )
        == told
    )
    assert options.items() >= ALIKE.items()
    every = 90 if told.benchmark == "inat" else 4  # of iNat the last epoch is kept, which alone is validated
    assert options["validate_every"] == every
    assert told.backbone in OWN


@pytest.mark.parametrize("name", [*PAPERS, *OTHERS])
def test_training_is_the_same_where_benchmark_and_network_alone_are_named(name):
    """So that the papers' tables, which name no training but for its precision, stand on the same weights."""
    trained, _ = of(name)
    names = [f"benchmark={trained.benchmark.name}", f"backbone={trained.backbone.name}"]
    (alone,) = parse(TrainConfig, [*names, *(f"trainer.precision={one}" for one in trained.trainer.values())])
    assert alone == trained


@pytest.mark.parametrize("name", PAPERS)
def test_pictures(name):
    """84 pixels, ImageNet's mean and deviation; when training, a crop, a flip, jitter of 0.4; when tested, 84 of 96."""
    trained, found = of(name)
    kind = option("benchmark", trained.benchmark.name).kind
    assert (kind.channels, kind.size) == (3, 84)
    assert (kind.mean, kind.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    jitter = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4}
    assert kind.augmentation == Augmentation(crop=0.08, flip=True, **jitter)
    assert {config.crop_pct for config in found} == {84 / 96}


@pytest.mark.parametrize("name", [name for name in [*PAPERS, *OTHERS] if not name.startswith("inat")])
def test_tasks_and_tuning(name):
    """10,000 tasks, 5-way, 1 and 5 shots, 15 queries a class; weights and neighbours tuned."""
    _, found = of(name)
    shapes = {(c.sampler.name, *(c.sampler.options[key] for key in ("way", "shot", "query"))) for c in found}
    assert shapes == {("balanced", 5, 1, 15), ("balanced", 5, 5, 15)}
    assert {(config.tasks, config.tuning, config.split, config.base_mean) for config in found} == {
        (10_000, "papers", "novel", "source")
    }
    assert {config.target.name for config in found} == {"cub" if name == "mini_to_cub" else "same"}
    tuned = {config.strategy.name: dict(config.strategy.grids) for config in found}
    assert tuple(tuned["laplacianshot"]["n_neighbors"]) == (3, 5, 10)
    assert tuple(tuned["laplacianshot"]["weight"]) == (0.1, 0.3, 0.5, 0.7, 0.8, 1.0, 1.2, 1.5)
    assert tuned["simpleshot"] == {}


@pytest.mark.parametrize("name", [name for name in PAPERS if name.startswith("inat")])
def test_the_task_of_inat(name):
    """One task of all classes; weight 1 and 10 neighbours, nothing tuned; plain support means, three transforms."""
    _, found = of(name)
    assert {(config.sampler.name, config.tuning, config.count(1)) for config in found} == {("whole_split", None, 1)}
    assert {config.sampler.options["support"] for config in found} == {"first"}  # as their authors divide them
    laplacian = [config.strategy for config in found if config.strategy.name != "simpleshot"]
    assert {strategy.name for strategy in laplacian} == {"laplacianshot_plain_prototypes"}
    assert {(strategy.options["weight"], strategy.options["n_neighbors"]) for strategy in laplacian} == {(1.0, 10)}
    assert {config.strategy.options["transform"] for config in found} == {"UN", "L2N", "CL2N"}
    assert len(found) == 6


FEW_SHOT = ["thesis/4.1", "thesis/4.2", "thesis/4.3", "thesis/4.4", "thesis/4.5", "slk_fewshot/II", "slk_fewshot/III"]


@pytest.mark.parametrize("table", FEW_SHOT)
def test_every_cell_of_the_papers_stands_on_the_training_of_an_experiment(table):
    trainings = [of(name)[0] for name in PAPERS]
    cells = [cell.few_shot for cell in paper_table(table).cells if cell.few_shot]
    assert cells
    for config in cells:
        assert config.training_config() in trainings
        assert config.crop_pct == 84 / 96
        assert config.training.name in groups.names("training")
    elsewhere = paper_table(f"{table}@glyphs").cells
    assert {cell.few_shot.crop_pct for cell in elsewhere if cell.few_shot} == {None}
