"""`transduce evaluate` and `transduce compare`: what they print, audits, task files, which configs share tasks."""

import csv
import io
import json
import math

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.stages.comparison import Comparison, settings
from runs.stages.pipeline import evaluation
from runs.tables.compared import rows, title, verdict
from tests.runs.typed import latest, without


def test_a_table_on_standard_output_and_the_rest_on_standard_error(trained, tiny_arguments, capsys):
    typed = ["evaluate", *tiny_arguments, "strategy=simpleshot,laplacianshot", "shot=1,3", f"results={trained.root}"]
    assert main(typed) == 0
    shown = capsys.readouterr()
    assert "5-way, 5 queries a class, novel classes, 40 tasks, 95 % interval over tasks" in shown.out
    assert "evaluating" in shown.err
    assert shown.err.rstrip().splitlines()[-1].startswith("runs: ")
    assert "\x1b" not in shown.out + shown.err
    assert main([*typed, "--json", "--quiet"]) == 0
    again = capsys.readouterr()
    assert not again.err
    rows = json.loads(again.out)
    names = [(row["config"]["strategy"], row["config"]["sampler.shot"]) for row in rows]
    assert names == [(name, shot) for name in ("simpleshot", "laplacianshot") for shot in (1, 3)]
    for row in rows:
        assert f"{100 * row['accuracy']:.2f} ± " in shown.out
        assert row["reused"]
    assert main([*typed[:-3], "strategy=simpleshot", typed[-1], "--force", "--json"]) == 0
    (forced,) = json.loads(capsys.readouterr().out)
    assert not forced["reused"]
    assert forced["run"] != rows[0]["run"]


def test_tasks_are_written_and_evaluated(trained, tiny_arguments, tmp_path, capsys):
    path = tmp_path / "tasks.safetensors"
    common = [*tiny_arguments, f"results={trained.root}", "strategy=simpleshot"]
    assert main(["tasks", str(path), *common]) == 0
    assert main(["evaluate", *common, "--json"]) == 0
    drawn = json.loads(capsys.readouterr().out)
    from_file = [item for item in common if not item.startswith(("query", "tasks"))] + ["sampler=file", f"path={path}"]
    assert main(["evaluate", *from_file, "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read[0]["accuracy"] == drawn[0]["accuracy"]
    assert read[0]["tasks"] == 40
    assert not read[0]["reused"]
    for change, word in (
        ("tasks=41", "set tasks=40"),
        ("split=validation", "benchmark and split"),
        ("shot=1", "balanced"),
    ):
        assert main(["evaluate", *from_file, change]) == 2
        assert word in capsys.readouterr().err


def test_the_audit_is_kept_apart(trained, tracker, grid):
    plain = evaluation(grid(), trained, tracker)
    audited = evaluation(grid("audit=best_permutation"), trained, tracker)
    again = evaluation(grid("audit=best_permutation"), trained, tracker)
    for first, second, third in zip(plain, audited, again, strict=True):
        assert not first.audits
        np.testing.assert_array_equal(first.accuracies, second.accuracies)
        best = second.audits["best_permutation"]
        assert (best >= second.accuracies - 1e-12).all()
        assert third.reused
        np.testing.assert_array_equal(best, third.audits["best_permutation"])
        metrics = tracker.client.get_run(second.run_id).data.metrics
        assert metrics["audit_best_permutation"] == pytest.approx(best.mean())
        assert metrics["accuracy"] == pytest.approx(first.accuracy)


def test_an_audit_that_a_strategy_cannot_have_is_refused_before_training(store, tracker, grid):
    with pytest.raises(InputError, match="simpleshot"):
        evaluation(grid("audit=directed_with_self"), store, tracker)
    assert not store.cache("checkpoint").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["strategy=simpleshot,stata"], "strategy=stata requires class names"),
        (["sampler=named_classes", "strategy=laplacianshot"], "sampler=named_classes have no labelled examples"),
        (["sampler=named_classes", "strategy=bd_cspn"], "strategy=bd_cspn does not use class names"),
    ],
)
def test_missing_class_names_are_noticed_before_training(store, tracker, tiny_arguments, settings, message):
    typed = [item for item in tiny_arguments if "named" not in settings[0] or not item.startswith("query=")]
    with pytest.raises(InputError, match=message):
        evaluation(parse(EvaluateConfig, [*typed, *settings]), store, tracker)
    assert not store.cache("checkpoint").exists()


def test_of_one_task_both_means_are_shown_with_intervals_over_queries(trained, tracker, tiny_arguments, capsys):
    typed = [*(item for item in tiny_arguments if item[:5] not in ("tasks", "query")), "tasks=1", "way=7", "query=9"]
    assert main(["evaluate", *typed, "strategy=simpleshot", f"results={trained.root}"]) == 0
    out = capsys.readouterr().out
    assert "over queries" in out
    assert "per class" in out
    (config,) = parse(EvaluateConfig, [*typed, "strategy=simpleshot"])
    (result,) = evaluation([config], trained, tracker)
    assert result.reused
    assert result.units == "queries"
    assert f"{100 * result.classes.mean:.2f} ± {100 * result.classes.half_width:.2f} %" in out
    run = tracker.client.get_run(result.run_id).data
    assert run.metrics["accuracy_per_class"] == pytest.approx(result.classes.mean)
    assert run.metrics["accuracy_ci95"] == pytest.approx(1.96 * np.std(result.query_right) / math.sqrt(63))
    assert run.tags["interval"] == "over queries"
    assert result.class_names == tuple(f"novel {i}" for i in range(7))
    assert result.classes.asked.tolist() == [9] * 7


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
        configs = parse(EvaluateConfig, without(latest(*tiny_arguments, *changes), leave_out))
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
