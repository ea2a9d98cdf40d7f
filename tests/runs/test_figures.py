"""The papers' figures: drawn from the record with its numbers, logged once, told apart in print, and shipped."""

import dataclasses
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import yaml

from clustering.foundation.errors import InputError
from fsl.evaluation.scores import half_width
from runs.cache import Store
from runs.cli import main
from runs.config.configs import EvaluateConfig, RunConfig, TuneConfig
from runs.figures import papers
from runs.figures.few_shot import plot_names
from runs.figures.intervals import intervals_figure
from runs.figures.lines import differences, lines_figure, summary
from runs.figures.quickstart import descent_figure
from runs.figures.style import COLOURS, FORMATS, LINES, MARKERS, new_grid, save, series, styled
from runs.record.query import NOTE, RunRow
from runs.report.figures import read_figures
from runs.stages.pipeline import Tuning, evaluation, tune
from runs.stages.tuning import recorded_tuning
from runs.tables.published import figures
from runs.tables.shipped import drawings
from runs.track import Tracker
from tests.runs.records import copy_results, runs_of
from tests.runs.test_tuning import PROTOCOL
from tests.runs.typed import latest
from tests.templates import figure as template

TUNED, TRACED = "thesis/4.1@tiny_plugins:Tiny", "thesis/4.2@tiny_plugins:Tiny"
WEIGHTS = [0.7, 3.0]


def typed_for(folder, arguments):
    """What makes what to type behind the name of a figure; the later one of a key counts."""
    (folder / "short.yaml").write_text(PROTOCOL)
    keys = [item for item in arguments if not item.startswith("benchmark=")]

    def make(name, *more):
        given = [*keys, f"results={folder}/results", *more]
        if name == TUNED:
            given = [item.replace("tasks=40", "novel_tasks=40") for item in given] + [f"tuning={folder}/short.yaml"]
        return [name, *latest(*given)]

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
            runs = [made.tracker.client.get_run(trial.result.run_id).data.metrics for trial in curve.trials]
            means, widths = (np.array([run[name] for run in runs]) for name in ("accuracy", "accuracy_ci95"))
            np.testing.assert_array_equal(bars[0].get_xdata().tolist(), WEIGHTS)
            np.testing.assert_allclose(bars[0].get_ydata().tolist(), 100 * means)
            np.testing.assert_allclose(ends(bars), 100 * np.stack([means - widths, means + widths], axis=1))
        assert set(axes.get_lines()[-1].get_xdata()) == {tuning.tuned.values["weight"]}
    for words in ("30 of validation classes", "40 of novel classes", "95 % intervals over tasks"):
        assert words in caption


def test_plots_that_were_not_run_stay_empty_and_the_others_are_named(read):
    drawing, (one, five) = read
    found = [dataclasses.replace(five, config=five.config.replace(seed=1)), one]
    drawn = drawing.drawn(found)[0].axes
    assert [axes.get_ylabel() for axes in drawn] == ["1-shot accuracy (%)", "", "", "5-shot accuracy (%)"]
    assert [axes.get_title() for axes in drawn] == ["conv4, seed 0", "conv4, seed 1", "", ""]
    assert [axes.axison for axes in drawn] == [True, False, False, True]
    assert [axes.get_xlabel() for axes in drawn] == ["weight λ", "", "", "weight λ"]


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


TRACE = np.array([[1.0, 2.0, 9.0], [0.5, 0.25, 0.125], [0.0, 0.0, 0.0]])  # (steps, tasks)


def ends(bars):
    """(n, 2) lower and upper end of each error bar, along the axis that varies."""
    (lines,) = bars[2]
    segments = np.array(lines.get_segments(), dtype=float)
    return segments[:, :, 0] if np.ptp(segments[:, :, 0], axis=1).any() else segments[:, :, 1]


def tidy(*rows, quantity="accuracy (%)"):
    """Rows of panel, line, x, pair and value as a frame."""
    return pd.DataFrame(rows, columns=["panel", "line", "x", "pair", "value"]).assign(quantity=quantity)


def deviations(frame):
    return summary(frame, "deviation")


def test_intervals_are_those_of_the_frame():
    columns = ["row", "series", "mean", "low", "high", "outer", "filled"]
    cells = [("a", "1-shot", 60, 55, 66, 7, True), ("b", "1-shot", 70, 69, 71, np.nan, False)]
    (axes,) = intervals_figure(pd.DataFrame(cells, columns=columns), "accuracy", "title").axes
    thick, thin = axes.containers[:2]
    np.testing.assert_allclose(ends(thick), [[55, 66], [69, 71]])
    np.testing.assert_allclose(thin[2][0].get_segments()[0][:, 0], [53, 67])
    (dots,) = [one for one in axes.collections if len(one.get_offsets()) == 2]
    np.testing.assert_allclose(dots.get_offsets(), [[60, 0], [70, 1]])
    assert [face.min() < 1 for face in dots.get_facecolor()] == [True, False]
    assert [text.get_text() for text in axes.texts] == ["60.0", "70.0"]


@pytest.mark.parametrize(
    ("kind", "below", "above"),
    [
        ("range", 4 / 3, 5 / 3),
        ("deviation", np.std([1, 2, 4], ddof=1), np.std([1, 2, 4], ddof=1)),
        ("interval", half_width(np.array([1.0, 2, 4])), half_width(np.array([1.0, 2, 4]))),
    ],
)
def test_bars_along_a_setting(kind, below, above):
    frame = tidy(*(("data", "a", 1.0, seed, value) for seed, value in enumerate([1, 2, 4])))
    (axes,) = lines_figure(summary(frame, kind), "weight").axes
    (bars,) = axes.containers
    np.testing.assert_allclose(list(bars[0].get_ydata()), [7 / 3])
    np.testing.assert_allclose(ends(bars), [[7 / 3 - below, 7 / 3 + above]])


def test_the_line_of_tasks_is_their_median():
    median = [2.0, 0.25, 1e-6]
    np.testing.assert_allclose(descent_figure(TRACE, "s").axes[0].get_lines()[-1].get_ydata(), median)


def test_differences_are_of_the_same_seeds():
    known = [
        ("b", 50, 2, 75),
        ("b", 50, 1, 60),
        ("b", 100, 1, 50),
        ("a", 50, 1, 80),
        ("a", 50, 2, 70),
        ("a", 50, 3, 90),
    ]
    one = tidy(*(("digits", *row) for row in known), ("digits", "a", 500, 1, 90))
    assert differences(one).endswith(" above 0: a over b: +7.5 at 50 (1 of 2).")
    assert "; a over b (two): " in differences(pd.concat([one, one.assign(panel="two")]))
    assert differences(one[one["line"] == "a"]) == ""


def test_equal_values_have_no_bar():
    """Their mean may be rounded to above or below all of them."""
    values = np.random.default_rng(0).random(50)
    frame = tidy(*(("data", "a", x, seed, value) for x, value in enumerate(values) for seed in range(3)))
    (axes,) = lines_figure(summary(frame, "range"), "weight").axes
    np.testing.assert_allclose(np.ptp(ends(axes.containers[0]), axis=1), 0, atol=1e-12)


def test_a_panel_for_each_and_a_power_of_two_for_what_is_one():
    frame = tidy(
        *(("one", "a", 0.25, 1, 50), ("one", "a", 0.5, 1, 60)), *(("two", "b", 1.0, 1, 50), ("two", "b", 1.0, 2, 70))
    )
    figure = lines_figure(deviations(frame), {"one": "step", "two": "penalty"}, logarithmic=True)
    assert [axes.get_xlabel() for axes in figure.axes] == ["step", "penalty"]
    assert [axes.get_title() for axes in figure.axes] == ["one", "two"]
    assert all(axes.get_xscale() == "log" for axes in figure.axes)
    (bars,) = figure.axes[1].containers
    assert bars[0].get_xydata().tolist() == [[1, 60]]
    assert [axes.containers[0][0].get_color() for axes in figure.axes] == list(COLOURS[:2])


def test_panels_of_quantities_and_of_a_long_row():
    """A panel without the second quantity has its axis above; five panels of one quantity take two rows."""
    energy = tidy(("one", "a", 1.0, 1, 3), ("two", "a", 1.0, 1, 4), quantity="energy")
    figure = lines_figure(deviations(pd.concat([energy, tidy(("one", "a", 1.0, 1, 50))])), "weight")
    assert [axes.get_ylabel() for axes in figure.axes] == ["energy", "", "accuracy (%)", ""]
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "weight", "weight", ""]
    assert [axes.axison for axes in figure.axes] == [True, True, True, False]
    five = lines_figure(deviations(tidy(*((f"panel {i}", "a", 1.0, 1, i) for i in range(5)))), "weight").axes
    assert [axes.get_title() for axes in five if axes.axison] == [f"panel {i}" for i in range(5)]
    assert [axes.get_xlabel() for axes in five[:5]] == ["", "weight", "weight", "weight", "weight"]


def test_all_names_stand_in_the_picture():
    names = ("XSDC", "K-means, linear", "K-means, inverse covariance", "K-means, gaussian")
    figure = lines_figure(deviations(tidy(*(("digits", name, 50.0, 1, 50) for name in names))), "known labels")
    (legend,) = figure.legends
    figure.canvas.draw()
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width


def test_every_series_has_its_own_marker_and_line():
    looks = {str(sorted(series(place).items())) for place in range(len(COLOURS))}
    assert len(set(MARKERS)) == len(set(LINES)) == len(COLOURS) == len(looks)
    assert series(len(COLOURS)) == series(0)


@styled
def some_figure():
    figure, ((axes,),) = new_grid(1, 1, 3.5, 2.0)
    axes.plot([1, 2], [3, 4], label="λ", **series(1))
    axes.set_title("a $x^2$ title")
    axes.set_xlabel("weight λ")
    axes.legend()
    return figure


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_figure_is_the_same_file_and_one_that_cannot_be_saved_leaves_the_old_one(tmp_path, kind):
    path = tmp_path / f"figure.{kind}"
    before, again = (save(some_figure(), path, title="t").read_bytes() for _ in range(2))
    assert before == again
    broken = some_figure()
    broken.axes[0].set_title(r"$\no_such_command$")
    with pytest.raises(ValueError, match="no_such_command"):
        save(broken, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


SHIPPED = Path(__file__).parents[2] / "reproduction"
NAME = "thesis/3.1"


@pytest.mark.parametrize("own", [False, True])
def test_a_shipped_drawing_is_shown_unless_the_user_has_one(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    monkeypatch.setattr("runs.tables.shipped.PLACE", SHIPPED)
    mine = "<?xml <dc:description>My &lt; caption</dc:description>"
    monkeypatch.setattr("runs.report.figures._svg", lambda row, tracker: mine)
    row = RunRow("a" * 32, NAME, "figure", 0, 0, "FINISHED", {}, {}, {"stage": "figure"}, "")
    figures = read_figures([row] if own else [], tracker, drawings())
    (figure,) = (one for one in figures["thesis"] if one.name == NAME)
    assert figure.state == ("drawn" if own else "drawn (shipped)")
    assert figure.about
    assert figure.caption == "My < caption" if own else "fairness" in figure.caption
    assert own or figure.svg.startswith("<?xml")
