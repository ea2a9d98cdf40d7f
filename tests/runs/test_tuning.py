"""Tuning: protocols, what is chosen and recorded, that novel classes stay closed, and evaluation by reference."""

import json
import shutil

import numpy as np
import pytest
import tiny_plugins

from clustering.foundation.errors import InputError
from fsl.benchmarks.closed_splits import ClosedSplitError, check_open
from runs.cli import main
from runs.config.configs import EvaluateConfig, TuneConfig, parse
from runs.config.groups import names
from runs.config.overrides import Grid
from runs.config.tuning_protocol import TuningStep, steps_of
from runs.stages import tuning
from runs.stages.lineage import Lineage
from runs.stages.pipeline import evaluation, tune
from runs.track import PARENT
from tests.runs.records import runs_of
from tests.runs.typed import latest, without

PROTOCOL = """\
tasks: 30
laplacianshot:
- {split: base, grid: {n_neighbors: [2, 5]}, at: {weight: 1.0}}
- {split: validation, grid: {weight: [0.7, 3.0]}}
"""
SHORTEST = "tasks: 5\nlaplacianshot:\n- {split: validation, grid: {weight: [0.7, 3.0]}}\n"


@pytest.fixture
def typed(tmp_path, tiny_arguments):
    """What to type, for a tuning of seconds; keys given later replace earlier ones."""
    (tmp_path / "short.yaml").write_text(PROTOCOL)
    keys = without(tiny_arguments, "tasks")

    def make(*more):
        return latest(*keys, f"tuning={tmp_path}/short.yaml", "strategy=laplacianshot", *more)

    return make


@pytest.fixture
def shortest(typed, tmp_path):
    """The same config with one step, of two values."""
    (tmp_path / "short.yaml").write_text(SHORTEST)
    (found,) = parse(TuneConfig, typed())
    return found


@pytest.fixture
def config(typed):
    (found,) = parse(TuneConfig, typed())
    return found


@pytest.fixture
def tuned(kept, config, store, trained_results):
    """A store in which `config` was tuned."""
    kept("tuned", lambda *where: tune(config, *where), trained_results / "cache")
    return store


@pytest.fixture
def evaluated(typed):
    def make(*more):
        return parse(EvaluateConfig, typed("tasks=40", *more))

    return make


def children(tracker, parent):
    return [run for run in runs_of(tracker, "tune/Tiny") if run.data.tags.get(PARENT) == parent]


def accuracies_by_hand(config, split, tracker, **options):
    """Of one choice of values, by a plain evaluation."""
    strategy = config.strategy.at({name: values[0] for name, values in config.strategy.grids.items()} | options)
    (result,) = evaluation([config.trial(strategy, split, 30)], tracker.store, tracker)
    return result.accuracies


def test_the_best_of_every_step_is_chosen_with_what_steps_before_chose(tuned, tracker, config):
    found = tune(config, tuned, tracker)
    first = {k: accuracies_by_hand(config, "base", tracker, weight=1.0, n_neighbors=k) for k in (2, 5)}
    k = max(first, key=lambda k: first[k].mean())
    second = {w: accuracies_by_hand(config, "validation", tracker, weight=w, n_neighbors=k) for w in (0.7, 3.0)}
    w = max(second, key=lambda w: second[w].mean())
    assert found.tuned.values == {"n_neighbors": k, "weight": w}
    for curve, expected in zip(found.curves, (first, second), strict=True):
        for trial, accuracies in zip(curve.trials, expected.values(), strict=True):
            np.testing.assert_array_equal(trial.result.accuracies, accuracies)
    assert found.curves[1].gain is None  # by default the weight goes by the shots, which is none of those
    gains = first[k] - first[2]
    gain = found.curves[0].gain
    assert gain.mean == pytest.approx(gains.mean())
    assert gain.low <= gain.mean <= gain.high


@pytest.mark.parametrize("text", ["", "[3]", '{"chosen": {"weight": 0.2, "n_neighbors": 2}, "steps": []}'])
def test_a_choice_that_was_tampered_with_is_made_again(tuned, tracker, config, notes, text):
    """Also if the checksums fit."""
    first = tune(config, tuned, tracker)
    entry = tuned.find("tuning", first.tuned.key)

    def save(folder):
        (folder / "tuning.json").write_text(text)

    tuned.publish("tuning", entry.key, save, config=entry.config, metrics=entry.metrics, facts=entry.facts)
    second = tune(config, tuned, tracker, progress=notes)
    assert "is damaged" in notes
    assert not second.reused
    assert second.tuned.values == first.tuned.values


@pytest.mark.parametrize("error", [KeyboardInterrupt, pytest.param(RuntimeError, marks=pytest.mark.slow)])
def test_an_interrupted_tuning_goes_on_in_its_run(trained, tracker, config, notes, monkeypatch, error):
    real, calls = tuning.evaluate_tuned, []

    def interrupted(configs, *rest, **more):
        calls.append(configs)
        if len(calls) == 2:
            raise error
        return real(configs, *rest, **more)

    monkeypatch.setattr(tuning, "evaluate_tuned", interrupted)
    with pytest.raises(error):
        tune(config, trained, tracker)
    (parent,) = (run for run in runs_of(tracker, "tune/Tiny") if PARENT not in run.data.tags)
    assert parent.info.status in ("KILLED", "FAILED")
    done = {run.info.run_id for run in children(tracker, parent.info.run_id)}
    assert len(done) == 2
    check_open("novel")
    monkeypatch.undo()
    found = tune(config, trained, tracker, progress=notes)
    assert found.tuned.run_id == parent.info.run_id
    assert "going on with the interrupted run" in notes
    assert done < {run.info.run_id for run in children(tracker, parent.info.run_id)}
    assert tracker.client.get_run(parent.info.run_id).info.status == "FINISHED"
    assert "ended" not in tracker.client.get_run(parent.info.run_id).data.tags


def test_a_tuning_never_opens_novel_classes(trained, tracker, config, monkeypatch):
    shutil.rmtree(trained.cache("features"))
    real = tiny_plugins.Tiny.read

    def read(self, split):
        assert split != "novel"
        return real(self, split)

    monkeypatch.setattr(tiny_plugins.Tiny, "read", read)
    assert tune(config, trained, tracker).tuned.values
    lineage = Lineage.of(config)
    banks = {path.name for path in trained.cache("features").iterdir()}
    assert banks == {lineage.bank(split) for split in ("base", "validation")}


def test_a_tuning_that_asks_for_novel_classes_raises(trained, tracker, config, monkeypatch):
    grid = config.strategy.grids["weight"]
    monkeypatch.setattr(tuning, "steps_of", lambda *_: (TuningStep("novel", 30, {"weight": grid}, {}),))
    with pytest.raises(ClosedSplitError):
        tune(config, trained, tracker)
    assert runs_of(tracker, "tune/Tiny") == []


def test_tasks_that_a_split_cannot_give_are_known_before_anything_is_trained(store, tracker, typed):
    (config,) = parse(TuneConfig, typed("way=7"))  # there are 8 base classes, 6 of validation and 7 novel ones
    with pytest.raises(InputError, match=r"validation .*way=7"):
        tune(config, store, tracker)
    (config,) = parse(TuneConfig, [item for item in typed("sampler=whole_split") if not item.startswith("query=")])
    with pytest.raises(InputError, match=r"short\.yaml: .*sampler=whole_split .*tasks=1"):
        tune(config, store, tracker)
    assert runs_of(tracker, "train/Tiny") == []


def test_the_novel_curve_comes_after_the_choice_and_changes_nothing(trained, tracker, typed, shortest, monkeypatch):
    (asked,) = parse(TuneConfig, typed("novel_tasks=35"))
    real, seen = tuning.evaluate_tuned, []

    def watched(configs, *rest, parent, **more):
        seen.append((configs[0].split, tracker.client.get_run(parent.run_id).info.status))
        return real(configs, *rest, parent=parent, **more)

    monkeypatch.setattr(tuning, "evaluate_tuned", watched)
    found = tune(asked, trained, tracker)
    assert ("novel", "FINISHED") in seen
    assert ("novel", "RUNNING") not in seen
    assert found.novel.chosen.values == found.curves[-1].chosen.values
    assert found.novel.lost.mean >= 0
    (plain,) = evaluation([asked.trial(asked.strategy.at(found.tuned.values), "novel", 35)], trained, tracker)
    np.testing.assert_array_equal(found.novel.chosen.result.accuracies, plain.accuracies)
    metrics = tracker.client.get_run(found.tuned.run_id).data.metrics
    assert metrics["novel_accuracy"] == pytest.approx(plain.accuracy)
    assert tune(shortest, trained, tracker).tuned == found.tuned, "it is no part of the identity"


def test_evaluate_takes_what_was_chosen_by_reference(trained, tracker, shortest, evaluated, notes):
    (result,) = evaluation(evaluated(), trained, tracker, progress=notes)
    assert "laplacianshot 5w1s Tiny/conv4 s0: " in notes, "it is tuned first"
    found = tune(shortest, trained, tracker)
    assert found.reused
    assert result.tuned == found.tuned
    run = tracker.client.get_run(result.run_id)
    assert (run.data.tags["tuning_key"], run.data.tags["tuning_run"]) == (found.tuned.key, found.tuned.run_id)
    assert run.data.params["tuning"].endswith("short.yaml")
    for field, value in found.tuned.values.items():
        assert run.data.params[f"strategy.{field}"] == str(value)
        assert result.settled.strategy.options[field] == value
    (by_hand,) = evaluation([result.settled.replace(tuning=None)], trained, tracker)
    np.testing.assert_array_equal(result.accuracies, by_hand.accuracies)
    assert by_hand.key != result.key
    (again,) = evaluation(evaluated(), trained, tracker)
    assert again.reused
    (forced,) = evaluation(evaluated(), trained, tracker, force=True)
    assert not forced.reused
    assert forced.tuned == found.tuned, "what was tuned stays"


def test_an_evaluation_with_values_of_an_earlier_tuning_is_not_used(tuned, tracker, evaluated, notes):
    (result,) = evaluation(evaluated(), tuned, tracker)
    other = {**result.tuned.values, "weight": 3.0 if result.tuned.values["weight"] != 3.0 else 0.7}
    entry = tuned.find("tuning", result.tuned.key)

    def save(folder):
        (folder / "tuning.json").write_text(json.dumps({"chosen": other, "steps": []}))

    tuned.publish("tuning", entry.key, save, config=entry.config, metrics=entry.metrics, facts=entry.facts)
    (again,) = evaluation(evaluated(), tuned, tracker, progress=notes)
    assert not again.reused
    assert again.tuned.values == other
    assert "computed with an earlier tuning" in notes


def test_the_verb(trained, shortest, typed, capsys):
    common = typed(f"results={trained.root}", "strategy=simpleshot,laplacianshot", "novel_tasks=5")
    assert main(["tune", *common]) == 0
    shown = capsys.readouterr()
    assert "nothing to tune for simpleshot" in shown.err
    assert "novel tasks: weight=" in shown.err
    rows = [line.split() for line in shown.out.splitlines() if "laplacianshot" in line]
    assert [row[1:4] for row in rows] == [["validation", "5", "2"]]
    assert main(["tune", *common, "--json", "--quiet"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["reused"]
    assert record["steps"][0]["at_the_end"]
    assert shown.err.count("at the boundary of the tried") == sum(step["at_the_end"] for step in record["steps"])
    assert record["chosen"] == {k: v for step in record["steps"] for k, v in step["chosen"].items()}
    assert main(["evaluate", *typed(f"results={trained.root}", "tasks=5"), "--json", "--quiet"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["tuning"]["run"] == record["run"]
    assert row["config"]["strategy.weight"] == record["chosen"]["weight"]


WEIGHTS = (0.1, 0.3, 0.5, 0.7, 0.8, 1.0, 1.2, 1.5)


def steps(*typed, schema=TuneConfig):
    (config,) = parse(schema, typed)
    return [
        (step.split, step.tasks, dict(step.grids), dict(step.at)) for step in steps_of(config.tuning, config.strategy)
    ]


@pytest.fixture
def mine(tmp_path):
    """Writes a protocol of one's own; gives what to type for it."""

    def write(text, name="mine.yaml"):
        (tmp_path / name).write_text(text)
        return f"tuning={tmp_path / name}"

    return write


OWN = (
    "laplacianshot:\n- {grid: {weight: [0.1, 1]}}\nlaplacianshot_as_published:\n- {grid: {weight: [2, 3]}, tasks: 7}\n"
)
NOT_TUNED = "laplacianshot:\n- {grid: {weight: [0.1, 1]}}\nlaplacianshot_as_published: []\n"
PAPERS = [
    ("base", 500, {"n_neighbors": (3, 5, 10)}, {"weight": 1.0}),
    ("validation", 500, {"weight": WEIGHTS}, {}),
]


@pytest.mark.parametrize(
    ("typed", "protocol", "expected"),
    [
        ("strategy=laplacianshot", None, PAPERS),
        (
            "strategy=laplacianshot_as_published",  # whose code counts the point itself
            None,
            [("base", 500, {"n_neighbors": (2, 4, 9)}, {"weight": 1.0}), PAPERS[1]],
        ),
        (
            "strategy=laplacianshot_alpha_tim tuning=papers",
            None,
            [("base", 500, {"n_neighbors": (2, 4, 9)}, {"weight": 1.0}), PAPERS[1]],
        ),
        ("strategy=rectified_prototypes tuning=papers", None, []),  # tuned, it would become laplacianshot
        ("strategy=laplacianshot_as_published", NOT_TUNED, []),
        ("strategy=laplacianshot_as_published", OWN, [("validation", 7, {"weight": (2.0, 3.0)}, {})]),
        ("strategy=laplacianshot", OWN, [("validation", 500, {"weight": (0.1, 1.0)}, {})]),
        ("strategy=laplacianshot n_neighbors=7", None, [("validation", 500, {"weight": WEIGHTS}, {})]),
        ("strategy=laplacianshot weight=0.4", None, [("base", 500, {"n_neighbors": (3, 5, 10)}, {})]),
        ("strategy=laplacianshot weight=2,1 n_neighbors=7", None, [("validation", 500, {"weight": (1.0, 2.0)}, {})]),
        (
            "strategy=laplacianshot text_weight=5,10",
            None,
            [PAPERS[0], ("validation", 500, {"weight": WEIGHTS, "text_weight": (5.0, 10.0)}, {})],
        ),
        (
            "strategy=tim_adm temperature=5,15 marginal=0.5,1",
            None,
            [("validation", 500, {"temperature": (5.0, 15.0), "marginal": (0.5, 1.0)}, {})],
        ),
    ],
)
def test_steps_of_protocols_and_of_what_is_typed_beside_them(mine, typed, protocol, expected):
    """What is typed is kept; several typed values are chosen from; fields that no step names join the last one."""
    assert steps(*typed.split(), *([] if protocol is None else [mine(protocol)])) == expected


def test_every_protocol_can_be_tried():
    for protocol in names("tuning"):
        for config in parse(TuneConfig, [f"tuning={protocol}", f"strategy={','.join(names('strategy'))}"]):
            tried = [field for step in steps_of(protocol, config.strategy) for field in step.grids]
            assert sorted(tried) == sorted(config.strategy.grids)
            assert all(point.build() for point in config.strategy.points())


def test_tuning_is_that_of_tune_and_part_of_an_evaluation_where_there_is_something_to_tune():
    typed = ["strategy=laplacianshot", "weight=0.1,0.7", "shot=5", "seed=3"]
    *plain, tuned = parse(EvaluateConfig, [*typed, "tuning=null,papers", "tasks=70"])
    assert [config.strategy.options["weight"] for config in (*plain, tuned)] == [0.1, 0.7, Grid((0.1, 0.7))]
    (alone,) = parse(TuneConfig, typed)
    lineage = Lineage.of(alone)
    assert lineage.tuning(tuned.tuning_config()) == lineage.tuning(alone)
    for strategy, differ in (("laplacianshot", True), ("simpleshot", False)):
        first, second = parse(EvaluateConfig, [f"strategy={strategy}", "tuning=null,papers"])
        assert (Lineage.of(first).evaluation(first) != Lineage.of(second).evaluation(second)) == differ


@pytest.mark.parametrize("schema", [EvaluateConfig, TuneConfig])
@pytest.mark.parametrize("typed", [[], ["n_neighbors=5"], ["transform=CL2N,L2N"], ["text_weight=5,10", "weight=1"]])
def test_a_config_with_grids_is_read_back(tmp_path, schema, typed):
    (config,) = parse(schema, ["strategy=laplacianshot", "tuning=papers", *typed])
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert parse(schema, [f"experiment={tmp_path}/config.yaml"]) == [config]
    assert parse(schema, config.arguments()) == [config]


def identity(*typed):
    (config,) = parse(TuneConfig, ["strategy=laplacianshot", *typed])
    return Lineage.of(config).tuning(config)


def test_what_a_protocol_does_is_its_identity_not_its_name(mine):
    text = "laplacianshot:\n- {split: validation, grid: {weight: [0.5, 0.1]}, tasks: 20}\n"
    first = mine(text)
    assert identity(first) == identity(mine(text.replace("[0.5, 0.1]", "[0.1, 0.5, 0.5]"), "other.yaml"))
    assert identity(first) == identity(first, "novel_tasks=9", "batch=3")
    for change in [("tasks: 20", "tasks: 21"), ("0.1]", "0.2]"), ("validation", "base")]:
        assert identity(first) != identity(mine(text.replace(*change), "other.yaml"))
    for key in ("shot=2", "seed=1", "epochs=8", "graph=union", "weight=0.1,0.6"):
        assert identity(first) != identity(first, key)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("laplacianshot:\n- {split: novel, grid: {weight: [0.1, 1]}}", "mine.yaml.*base, validation"),
        ("laplacianshot:\n- {grid: {wieght: [0.1, 1]}}", "mine.yaml.*'weight'"),
        ("laplacianshot:\n- {grid: {weight: [0.1]}}", "mine.yaml.*two values"),
        ("laplacianshot:\n- {grid: {text_weight: [low, high]}}", "mine.yaml.*'low'"),
        ("laplacianshot:\n- {grid: {weight: [0.1, 1]}, at: {neighbors: 3}}", "mine.yaml.*did you mean 'n_neighbors'"),
        ("laplacianshot:\n- {grid: {weight: [0.1, 1]}, tasks: 0}", "mine.yaml.*tasks"),
        ("laplacianshot:\n- {split: base}", "mine.yaml.*each with a grid"),
        ("- weight", "mine.yaml.*key: value"),
        ("tuning=no/such.yaml", "no/such.yaml"),
        ("novel_tasks=-1", "novel_tasks"),
        ("sampler=file path=tasks.safetensors", "sampler"),
    ],
)
def test_mistakes_in_a_protocol_or_beside_it_are_named_with_their_place(mine, text, words):
    with pytest.raises(InputError, match=words):
        parse(
            TuneConfig, ["strategy=laplacianshot", *([mine(text)] if ":" in text or "-" in text[:1] else text.split())]
        )
