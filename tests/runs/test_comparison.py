"""Comparisons: which configs share tasks, what is said of them, and the verb."""

import csv
import io
import json

import pytest

from clustering.foundation.errors import InputError
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.stages.comparison import Comparison, settings
from runs.stages.pipeline import evaluation
from runs.tables.compared import rows, title, verdict


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
    assert verdict(nearest) in ("the same", "undecided")


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
    (_, row) = rows(comparison)
    assert "95 % over queries" in row
    assert row["per class"] == f"{100 * results[1].classes.mean:.2f} %"
    assert "1 task;" in title(comparison)


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
    assert {path.suffix for path in trained.tables.iterdir()} == {".md", ".tex", ".csv", ".png"}
    (text,) = (path.read_text() for path in trained.tables.glob("*.tex"))
    assert text.count("\\bottomrule") == text.count("\nsimpleshot & ") == 2  # settings
    (text,) = (path.read_text() for path in trained.tables.glob("*.md"))
    assert text.count("| simpleshot |") == 2  # settings
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
    for pair in again[0]["pairs"]:
        place = "1-shot", pair["strategy"], pair["reference"]
        assert pair["difference"] == pytest.approx(there[place])
