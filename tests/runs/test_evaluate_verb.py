"""`transduce evaluate` beside the accuracy: audits, task files, the only task of a split."""

import json
import math

import numpy as np
import pytest

from clustering.foundation.errors import InputError
from runs.cli import main
from runs.config.configs import EvaluateConfig, parse
from runs.stages.pipeline import evaluation


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
        metrics = tracker.get(second.run_id).data.metrics
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
    run = tracker.get(result.run_id).data
    assert run.metrics["accuracy_per_class"] == pytest.approx(result.classes.mean)
    assert run.metrics["accuracy_ci95"] == pytest.approx(1.96 * np.std(result.query_right) / math.sqrt(63))
    assert run.tags["interval"] == "over queries"
    assert result.class_names == tuple(f"novel {i}" for i in range(7))
    assert result.classes.asked.tolist() == [9] * 7
