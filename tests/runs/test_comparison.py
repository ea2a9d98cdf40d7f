"""Comparisons: which configs share tasks, what is said of them, and the verb."""

import csv
import io
import json

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.figures.differences import differences_figure
from runs.stages.comparison import Comparison, settings
from runs.stages.pipeline import evaluation
from runs.tables import differences


def of(*arguments, reference=None):
    return settings(parse(EvaluateConfig, list(arguments)), reference)


def test_strategies_are_laid_out_by_the_tasks_that_they_share():
    first, second = of("strategy=simpleshot,laplacianshot", "weight=0.1,0.7", "shot=1,5", "seed=0,2")
    assert (first.name, second.name) == ("1-shot", "5-shot")
    assert first.strategies == ("simpleshot", "laplacianshot weight=0.1", "laplacianshot weight=0.7")
    assert (first.reference, first.seeds) == (0, (0, 2))
    configs = parse(EvaluateConfig, ["strategy=simpleshot,laplacianshot", "weight=0.1,0.7", "shot=1,5", "seed=0,2"])
    for setting, shot in ((first, 1), (second, 5)):
        for name, indices in zip(setting.strategies, setting.configs, strict=True):
            assert [configs[i].seed for i in indices] == [0, 2]
            assert {configs[i].sampler.options["shot"] for i in indices} == {shot}
            assert {configs[i].strategy.name for i in indices} == {name.partition(" ")[0]}
            assert {str(configs[i].strategy.options.get("weight")) for i in indices} <= {
                name.partition("=")[2] or "None"
            }


@pytest.mark.parametrize(
    "apart",
    ["way=2,5", "tasks=10,20", "split=novel,validation", "sampler=balanced,dirichlet", "benchmark=glyphs,omniglot"],
)
def test_whatever_changes_the_tasks_keeps_strategies_apart(apart):
    found = of("strategy=simpleshot,laplacianshot", apart)
    assert len(found) == 2
    assert len({setting.name for setting in found}) == 2
    assert all(setting.strategies == ("simpleshot", "laplacianshot") for setting in found)


@pytest.mark.parametrize("together", ["backbone=conv4,resnet18", "epochs=3,4", "transform=UN,L2N"])
def test_other_features_are_compared_on_the_same_tasks(together):
    (setting,) = of("strategy=simpleshot", together)
    values = together.partition("=")[2].split(",")
    assert [name.partition("=")[2] for name in setting.strategies] == values


def test_tasks_of_another_benchmark_are_shared_by_networks_of_several():
    (setting,) = of("strategy=simpleshot", "benchmark=glyphs,omniglot_background", "target=mini", "training=default")
    assert setting.strategies == ("simpleshot benchmark=glyphs", "simpleshot benchmark=omniglot_background")
    (setting,) = of("strategy=simpleshot", "target=mini", "base_mean=source,target")
    assert setting.strategies == ("simpleshot base_mean=source", "simpleshot base_mean=target")
    home, abroad = of("strategy=simpleshot,laplacianshot", "target=same,mini")
    assert home.strategies == abroad.strategies
    assert home.name != abroad.name


def test_the_reference_by_name():
    typed = ("strategy=simpleshot,laplacianshot", "weight=0.1,0.7")
    assert of(*typed, reference="laplacianshot weight=0.7")[0].reference == 2
    assert of("strategy=simpleshot,laplacianshot", "weight=0.1", reference="laplacianshot")[0].reference == 1


@pytest.mark.parametrize(
    ("arguments", "reference", "words"),
    [
        (["strategy=simpleshot", "shot=1,5"], None, "simpleshot .*1-shot"),
        (["strategy=simpleshot"], None, "strategy=simpleshot,laplacianshot"),
        (["strategy=simpleshot,laplacianshot"], "simplshot", "'simpleshot'"),
        (["strategy=simpleshot,laplacianshot", "weight=0.1,1"], "laplacianshot", "laplacianshot weight=1"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, reference, words):
    with pytest.raises(InputError, match=words):
        of(*arguments, reference=reference)


def test_other_tasks_are_not_mixed_in():
    """Two experiments may have strategies on tasks of their own."""
    shared = parse(EvaluateConfig, ["strategy=simpleshot,laplacianshot", "tasks=10"])
    other_tasks = parse(EvaluateConfig, ["strategy=laplacianshot,slk_ms", "tasks=20"])
    with pytest.raises(InputError, match=r"tasks=20.*'simpleshot'"):
        settings([*shared, *other_tasks], "simpleshot")
    both = settings([*shared, *other_tasks], "laplacianshot")
    assert [setting.strategies for setting in both] == [("simpleshot", "laplacianshot"), ("laplacianshot", "slk_ms")]
    other_seeds = parse(EvaluateConfig, ["strategy=slk_ms", "tasks=10", "seed=0,1"])
    with pytest.raises(InputError, match="simpleshot: 0; laplacianshot: 0; slk_ms: 0, 1"):
        settings([*shared, *other_seeds])


@pytest.fixture
def compared(trained, tracker, tiny_arguments):
    """Evaluates what the arguments say and compares it."""

    def run(*changes, leave_out=""):
        given = {item.partition("=")[0]: item for item in [*tiny_arguments, *changes]}
        given.pop(leave_out, None)
        configs = parse(EvaluateConfig, list(given.values()))
        results = evaluation(configs, trained, tracker)
        return results, [Comparison.of(setting, results) for setting in settings(configs)]

    return run


def test_differences_are_those_of_the_results(compared):
    results, (one, three) = compared("strategy=simpleshot,laplacianshot,nearest", "shot=1,3")
    by_name = {(r.config.strategy.name, r.config.sampler.options["shot"]): r for r in results}
    for comparison, shot in ((one, 1), (three, 3)):
        reference = by_name["simpleshot", shot].accuracies
        for name, difference in comparison.against_reference():
            by_task = by_name[name, shot].accuracies - reference
            assert difference.mean == pytest.approx(by_task.mean())
            assert difference.better == pytest.approx((by_task > 0).mean())
            assert difference.low <= difference.mean <= difference.high
        # Nearest and simpleshot are the same rule on one example a class.
    nearest = dict(one.against_reference())["nearest"]
    assert nearest.equal > 0.9
    assert differences.verdict(nearest) in ("the same", "undecided")


def test_by_class(compared):
    results, (comparison,) = compared("strategy=simpleshot,laplacianshot", "way=3")
    records = differences.class_records(comparison)
    assert {record["class"] for record in records} == {f"novel {i}" for i in range(7)}
    assert sum(record["queries"] for record in records) == 40 * 3 * 5
    gains = [record["difference"] for record in records]
    assert gains == sorted(gains, reverse=True)
    for record in records:
        k = int(record["class"].removeprefix("novel "))
        shares = [result.classes.right[k] / result.classes.asked[k] for result in results]
        assert (record["reference_accuracy"], record["accuracy"]) == pytest.approx(tuple(shares))
    weighted = sum(record["difference"] * record["queries"] for record in records) / 600
    assert weighted == pytest.approx(comparison.difference(1, 0).mean)


def test_of_one_task_queries_are_compared(compared):
    results, (comparison,) = compared(
        "strategy=simpleshot,laplacianshot", "sampler=whole_split", "tasks=1", leave_out="query"
    )
    assert comparison.units == "queries"
    difference = comparison.difference(1, 0)
    right = [result.query_right.astype(float) for result in results]
    assert len(right[0]) == 7 * 16
    assert difference.mean == pytest.approx((right[1] - right[0]).mean())
    assert difference.mean == pytest.approx(results[1].accuracy - results[0].accuracy)
    assert difference.high > difference.low
    (_, row) = differences.rows(comparison)
    assert "95 % over queries" in row
    assert row["per class"] == f"{100 * results[1].classes.mean:.2f} %"
    assert "1 task;" in differences.title(comparison)


def test_several_seeds_have_their_spread_beside_that_of_tasks(compared):
    results, (comparison,) = compared("strategy=simpleshot,laplacianshot", "seed=0,1", "tasks=60")
    by_seed = {(r.config.strategy.name, r.config.seed): r.accuracies for r in results}
    difference = comparison.difference(1, 0)
    assert difference.seed_means == pytest.approx(
        [(by_seed["laplacianshot", seed] - by_seed["simpleshot", seed]).mean() for seed in (0, 1)]
    )
    (_, row) = differences.rows(comparison)
    assert row["by seed"] == ", ".join(f"{100 * mean:+.2f}" for mean in difference.seed_means)
    assert {"95 % over tasks", "95 % over seeds"} <= row.keys()
    assert "60 tasks, 2 seeds" in differences.title(comparison)
    record = differences.as_json(comparison)["differences"]["laplacianshot"]
    assert record["seed_differences"] == pytest.approx(difference.seed_means)
    assert record["seeds_half_width"] == pytest.approx(difference.seeds_half_width)
    lines = differences_figure([comparison]).axes[0].get_lines()
    widths = [np.ptp(line.get_xdata()) for line in lines if len(line.get_xdata())]
    assert any(width == pytest.approx(200 * difference.seeds_half_width) for width in widths)


@pytest.fixture
def typed(trained, tiny_arguments):
    return [*tiny_arguments, "strategy=simpleshot,laplacianshot,nearest", "shot=1,3", f"results={trained.root}"]


def test_the_verb_evaluates_compares_and_saves(trained, typed, capsys):
    assert main(["compare", *typed, "reference=nearest", "--by-class"]) == 0
    out, err = capsys.readouterr()
    assert "difference to nearest in points" in out
    assert "better / equal / worse" in out
    assert "novel 3" in out
    assert "saved" in err
    assert {path.suffix for path in trained.tables.iterdir()} == {".md", ".csv", ".png"}
    (text,) = (path.read_text() for path in trained.tables.glob("*.md"))
    assert text.count("| simpleshot |") == 4 + 2  # against the reference and among all pairs, of two settings
    (table,) = (path for path in trained.tables.glob("*.csv") if "classes" not in path.name)
    pairs = list(csv.DictReader(io.StringIO(table.read_text())))
    assert len(pairs) == 2 * 3 * 2
    there = {(p["setting"], p["strategy"], p["reference"]): float(p["difference"]) for p in pairs}
    for setting, first, second in there:
        assert there[setting, first, second] == pytest.approx(-there[setting, second, first])
    assert main(["compare", *typed, "--json", "--quiet"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [record["setting"] for record in again] == ["1-shot", "3-shot"]
    assert again[0]["reference"] == "simpleshot"
    assert again[0]["pairs"]["nearest"]["simpleshot"]["difference"] == pytest.approx(
        there["1-shot", "nearest", "simpleshot"]
    )
    assert again[0]["differences"]["nearest"] == again[0]["pairs"]["nearest"]["simpleshot"]
