"""The papers' figures: drawn from the record alone, with its numbers, logged once, and what is missing is named."""

import io
import json
import shutil
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import yaml

from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.cli import main
from runs.config.configs import EvaluateConfig, RunConfig, TuneConfig
from runs.figures import papers
from runs.figures.few_shot import plot_names
from runs.figures.style import FORMATS
from runs.record.query import NOTE
from runs.stages.pipeline import Tuning, evaluation, tune
from runs.stages.tuning import recorded_tuning
from runs.tables.papers.published import figures
from runs.track import Tracker
from tests.runs.records import copy_results, runs_of
from tests.runs.test_drawn_data import ends
from tests.templates import figure as template

TUNED, TRACED = "thesis/4.1@tiny_plugins:Tiny", "thesis/4.2@tiny_plugins:Tiny"
PROTOCOL = """\
tasks: 30
laplacianshot:
- {split: base, grid: {n_neighbors: [2, 5]}, at: {weight: 1.0}}
- {split: validation, grid: {weight: [0.7, 3.0]}}
"""
WEIGHTS = [0.7, 3.0]


def typed_for(folder, arguments):
    """What makes what to type behind the name of a figure; the later one of a key counts."""
    (folder / "short.yaml").write_text(PROTOCOL)
    keys = [item for item in arguments if not item.startswith("benchmark=")]

    def make(name, *more):
        given = [*keys, f"results={folder}/results", *more]
        if name == TUNED:
            given = [item.replace("tasks=40", "novel_tasks=40") for item in given] + [f"tuning={folder}/short.yaml"]
        return [name, *{item.partition("=")[0]: item for item in given}.values()]

    return make


def configs_of(name, typed):
    number, _, benchmark = name.partition("@")
    return papers.drawing(number).configs(benchmark, typed[1:], print)


@pytest.fixture
def typed(tmp_path, tiny_arguments, trained):
    """What to type behind the name of a figure, in a store without runs."""
    return typed_for(tmp_path, tiny_arguments)


@pytest.fixture
def needed(typed):
    """The configs that a figure needs."""
    return lambda name, *more: configs_of(name, typed(name, *more))


class Made(NamedTuple):
    """A store with tunings that no test changes."""

    store: Store
    tracker: Tracker
    tunings: list[Tuning]
    typed: Callable[..., list[str]]


@pytest.fixture(scope="session")
def made(tmp_path_factory, tiny_arguments, trained_results, empty_record):
    folder = tmp_path_factory.mktemp("tuned")
    store = Store(folder / "results")
    store.prepare()
    shutil.copy(empty_record, store.database)
    shutil.copytree(trained_results / "cache", store.root / "cache", dirs_exist_ok=True)
    tracker, typed = Tracker(store), typed_for(folder, tiny_arguments)
    return Made(store, tracker, [tune(c, store, tracker) for c in configs_of(TUNED, typed(TUNED))], typed)


@pytest.fixture
def read(made):
    """How the first figure is drawn, and what it reads."""
    drawing = papers.drawing("thesis/4.1")
    return drawing, [drawing.read(tuning.config, made.tracker, print) for tuning in made.tunings]


def drawn(store, number):
    return {kind: (store.figures / f"thesis-{number}-tiny_plugins-Tiny.{kind}") for kind in FORMATS}


def test_accuracy_against_the_weight_is_drawn_as_the_runs_say(made, read):
    drawing, found = read
    figure, caption = drawing.drawn(found)
    assert [axes.get_ylabel() for axes in figure.axes] == ["1-shot accuracy (%)", "5-shot accuracy (%)"]
    for axes, tuning in zip(figure.axes, made.tunings, strict=True):
        for bars, curve in zip(axes.containers, (tuning.curves[-1], tuning.novel), strict=True):
            runs = [made.tracker.get(trial.result.run_id).data.metrics for trial in curve.trials]
            means, widths = (np.array([run[name] for run in runs]) for name in ("accuracy", "accuracy_ci95"))
            np.testing.assert_array_equal(bars[0].get_xdata().tolist(), WEIGHTS)
            np.testing.assert_allclose(bars[0].get_ydata().tolist(), 100 * means)
            np.testing.assert_allclose(ends(bars), 100 * np.stack([means - widths, means + widths], axis=1))
        assert set(axes.get_lines()[-1].get_xdata()) == {tuning.tuned.values["weight"]}
    for words in ("30 of validation classes", "40 of novel classes", "95 % intervals over tasks"):
        assert words in caption


def test_the_template_draws_results(recorded):
    """Its entry is in its docstring."""
    entry = yaml.safe_load(template.__doc__.partition("papers.yaml:")[2])["NAME"]
    drawing = papers.Drawing(draw=template.spread, of=entry["of"], caption=entry["caption"])
    figure, caption = drawing.drawn(list(recorded.values()))
    assert len(figure.axes[0].get_lines()) == 4
    assert "1-shot" in caption


def test_the_objective_of_the_first_task_is_drawn_until_it_stops(trained, tracker, needed):
    configs = needed(TRACED, "seed=0,1", f"checkpoint={trained.root}/weights.safetensors")
    (weights,) = trained.cache("checkpoint").glob("*/best.safetensors")
    shutil.copy(weights, trained.root / "weights.safetensors")  # for both seeds, so that nothing is trained
    results = evaluation(configs, trained, tracker)
    drawing = papers.drawing("thesis/4.2")
    found = [drawing.read(config, tracker, print) for config in configs]
    figure, caption = drawing.drawn(found)
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["weights, seed 0", "weights, seed 1"]
    for line, result in zip(lines, results, strict=True):
        steps = int(result.iterations[0])
        np.testing.assert_array_equal(line.get_xdata(), range(steps + 1))
        np.testing.assert_array_equal(line.get_ydata(), result.trace[: steps + 1, 0])
        assert (np.diff(line.get_ydata()) <= 1e-3).all()
    assert "40 tasks" in caption


def test_the_verb_saves_prints_and_logs_and_then_reuses(made, capsys):
    assert main(["figure", *made.typed(TUNED), "--force"]) == 0
    shown = capsys.readouterr()
    files = drawn(made.store, "4.1")
    assert files["pdf"].read_bytes().startswith(b"%PDF")
    assert files["svg"].read_text().startswith("<?xml")
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert "saved: " in shown.err
    run, *earlier = runs_of(made.tracker, "figure/thesis/4.1")
    assert (run.info.run_name, run.info.status) == (TUNED, "FINISHED")
    assert run.data.tags[NOTE] == " ".join(shown.out.split())
    assert {tuning.tuned.run_id for tuning in made.tunings} < set(run.data.tags["source_runs"].split())
    kept = {item.path for item in made.tracker.client.list_artifacts(run.info.run_id)}
    assert kept == {"config.yaml", *(path.name for path in files.values())}
    before = {path: path.read_bytes() for path in files.values()}
    files["svg"].unlink()
    files["png"].write_bytes(b"spoilt")
    assert main(["figure", *made.typed(TUNED), "--json"]) == 0
    shown = capsys.readouterr()
    assert "reused: " in shown.err
    told = json.loads(shown.out)
    assert (told["reused"], told["run_id"]) == (True, run.info.run_id)
    assert {path: path.read_bytes() for path in files.values()} == before
    assert len(runs_of(made.tracker, "figure/thesis/4.1")) == 1 + len(earlier)


def test_a_result_that_is_gone_or_damaged_is_named(made, trained, tracker, notes):
    copy_results(made.store.root, trained)
    one, five = made.tunings
    shutil.rmtree(trained.cache("evaluation") / one.novel.trials[1].result.key)
    assert recorded_tuning(one.config, tracker, notes.note) is None
    assert "lacks weight=3.0 on 40 tasks of novel classes" in notes
    spoilt = trained.cache("evaluation") / five.curves[-1].trials[0].result.key / "per_task.npz"
    spoilt.write_bytes(b"no numbers")
    assert recorded_tuning(five.config, tracker, notes.note) is None
    assert "lacks weight=0.7" in notes


def test_what_is_missing_is_run_when_told_so(trained, typed, capsys, monkeypatch):
    assert main(["figure", *typed(TRACED)]) == 2
    err = capsys.readouterr().err
    assert "not run, or incomplete: laplacianshot 5w5s Tiny/conv4 s0" in err
    assert f"transduce figure {TRACED} " in err
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["figure", *typed(TRACED), "--run-missing"]) == 2
    err = capsys.readouterr().err
    assert "1 new run" in err
    assert "add -y" in err
    assert main(["figure", *typed(TRACED), "--run-missing", "-y"]) == 0
    assert all(path.is_file() for path in drawn(trained, "4.2").values())


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        (TRACED, ["strategy=simpleshot"], "weight"),
        (TUNED, ["strategy=simpleshot"], "varies nothing of simpleshot last"),
        (TUNED, ["way=3,5"], "two curves for the plot"),
        (TUNED, ["text_weight=5,15"], "varies weight, text_weight of laplacianshot last"),
        ("thesis/4.1@glyfs", [], "glyphs"),
    ],
)
def test_what_makes_no_figure(trained, typed, capsys, name, more, words):
    assert main(["figure", *typed(name, *more), "--run-missing", "-y"]) == 2
    assert words in capsys.readouterr().err


def test_every_figure_of_the_papers_is_drawn_or_is_a_sketch():
    rows = {row["name"]: row["can be drawn"] for row in papers.listed()}
    assert list(rows) == [*(figure.name for figure in figures()), *papers.OWN]
    assert {name for name, drawn in rows.items() if drawn == "yes"} == {*papers.entries(), *papers.OWN}
    for figure in figures():
        assert (figure.name in papers.entries()) == figure.data_like
        if not figure.data_like:
            assert rows[figure.name].startswith("is a sketch")
            with pytest.raises(InputError, match=figure.name):
                papers.drawing(figure.name)


@pytest.mark.parametrize("name", [name for name in papers.entries() if name not in papers.OWN])
def test_every_figure_that_is_drawn_parses(name):
    drawing, left_out = papers.drawing(name), []
    printed = drawing.configs("", [], left_out.append)
    if not drawing.of:
        assert printed == [RunConfig()], "of formulas alone"
        return
    if drawing.of == "cluster":
        other = "digits_uneven" if name == "xsdc/10" else "digits"
        assert {config.dataset.name for config in drawing.configs(other, [], print)} == {other}
        own = {"xsdc": "xsdc", "entropy/2": "miadm", "entropy/12": "miadm"}  # other methods lack their settings
        method = own.get(name, own.get(name.partition("/")[0], "slk_byproduct"))
        assert {config.method.name for config in drawing.configs("", [f"method={method}"], print)} == {method}
        return
    if drawing.of == "fair":
        other = drawing.configs("synthetic", [], print)
        assert {config.dataset.name for config in other} == {"synthetic"}
        assert all(config.fairness_weight for config in printed), "a figure is of the same weights everywhere"
        return
    folded = drawing.configs("glyphs", [], print)
    assert {(config.benchmark.name, config.backbone.name) for config in folded} == {("glyphs", "conv4")}
    assert len(folded) == len({config.sampler.options["shot"] for config in folded})
    assert {config.benchmark.name for config in printed} == {"mini"}
    assert len(set(plot_names(printed))) + len(left_out) == len(drawing.networks)
    (one,) = {config.backbone.name for config in drawing.configs("", ["backbone=conv6"], print)}
    assert one == "conv6"
    assert {type(config) for config in printed} <= {EvaluateConfig, TuneConfig}


def test_a_figure_of_an_empty_benchmark_is_refused(tmp_path, capsys):
    """It would be logged as another figure than that of the paper."""
    assert main(["figure", "thesis/4.1@", f"results={tmp_path}"]) == 2
    assert "thesis/4.1@" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
