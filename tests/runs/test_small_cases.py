"""Small cases of runs: their outcomes, what an export carries of them, and options of all kinds."""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from clustering.foundation.errors import InputError
from fairness.rivals.backurs import Backurs
from runs.cache import Store
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, parse
from runs.record.exports.exported import ExportedRuns
from runs.record.exports.outcome import MOST, SMALL_CASE, Outcome, difference
from runs.record.exports.transfer import CONFIG, export_runs, import_runs
from runs.record.query import RunRow, read_runs
from runs.stages.fair.stage import fair_clustering
from runs.stages.small_cases import outcomes
from runs.stages.small_cases.outcomes import outcome_of, small_case, why_stale
from runs.tables.clusterings import Clusterings
from runs.track import Tracker
from tests.runs.records import copy_results

FAIR = ["dataset=synthetic", "method=backurs", "fairness_weight=0,1", "n_init=1"]


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.stages.small_cases.outcomes._known", {})


@pytest.fixture(scope="session")
def fair_results(results_of):  # type: ignore[no-untyped-def]
    """A results folder with one fair clustering, twice with other seeds. Copy it, do not touch it."""
    configs = parse(FairConfig, [*FAIR, "seed=0,1"])
    return results_of("small case", lambda *where: fair_clustering(configs, *where))[0]


@pytest.fixture
def run(store: Store, tracker: Tracker, fair_results: Path) -> RunRow:
    copy_results(fair_results, store)
    return next(run for run in read_runs(tracker, "") if run.params["seed"] == "1")


def config_of(tracker: Tracker, run: RunRow) -> bytes:
    return tracker.read(run.run_id, CONFIG, Path.read_bytes, run.artifact_uri)


@pytest.fixture
def other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.stages.fair.stage.code_fingerprint", lambda *_: "another")


def test_an_export_has_outcomes_and_an_import_keeps_them(
    run: RunRow, tracker: Tracker, tmp_path: Path, empty_record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[object] = []
    compute = outcomes._computed
    monkeypatch.setattr(outcomes, "_computed", lambda config: computed.append(config) or compute(config))
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    assert export_runs(tracker, first, outcome_of=outcome_of) == 2
    assert len(computed) == 1  # the seed makes no difference
    assert all(Outcome.parse(row.tags[SMALL_CASE]).numbers["objective"] for row in ExportedRuns(first).runs)
    store = Store(tmp_path / "second")
    store.prepare()
    store.database.write_bytes(empty_record.read_bytes())
    other = Tracker(store)
    import_runs(ExportedRuns(first), other)
    monkeypatch.setattr("runs.stages.fair.stage.code_fingerprint", lambda *_: "another")
    export_runs(other, second, outcome_of=outcome_of)
    assert second.read_bytes() == first.read_bytes()  # the first ids of the runs, too


@pytest.mark.usefixtures("other_code")
def test_a_run_of_other_code_keeps_its_outcome_or_has_none(run: RunRow, tracker: Tracker) -> None:
    config = config_of(tracker, run)
    assert outcome_of(run, config) is None
    assert outcome_of(dataclasses.replace(run, tags={**run.tags, SMALL_CASE: "kept"}), config) == "kept"


def test_a_fair_clustering_is_stale_once_its_method_has_changed(
    run: RunRow, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    (config,) = parse(FairConfig, FAIR)
    outcome = outcome_of(run, config_of(tracker, run))
    tagged = dataclasses.replace(run, tags={**run.tags, SMALL_CASE: outcome})
    monkeypatch.setattr("runs.stages.fair.stage.code_fingerprint", lambda *_: "another")
    outcomes._known.clear()
    assert why_stale(config, tagged) == ""
    outcomes._known.clear()
    monkeypatch.setattr(Backurs, "fit", _moved(Backurs.fit))
    assert "objective" in why_stale(config, tagged)


def test_a_stale_run_on_other_points_hides_no_run_that_counts(run: RunRow) -> None:
    (config,) = parse(FairConfig, FAIR)
    newer = dataclasses.replace(run, run_id="0" * 32, tags={**run.tags, "data": "other", "recipe": "other"})
    clusterings = Clusterings(small_cases=True)
    clusterings.add(newer)
    (alone,) = clusterings.results(config, lambda _: (0.5, 0.5), [], "cell", [])
    assert (alone.run_id, bool(alone.stale)) == (newer.run_id, True)
    clusterings.add(run)
    notes: list[str] = []
    (found,) = clusterings.results(config, lambda _: (0.5, 0.5), [], "cell", notes)
    assert (found.run_id, found.stale, notes) == (run.run_id, "", [])


def test_an_audit_that_changes_the_strategy_has_a_small_case() -> None:
    (config,) = parse(EvaluateConfig, ["strategy=laplacianshot", "audit=best_permutation,directed_with_self"])
    numbers = small_case(config)
    assert len(numbers["audit_best_permutation"]) == len(numbers["audit_directed_with_self"]) == 4


@pytest.mark.parametrize("classes", [(1, 3), (19, 19), (50, 200)])
def test_tasks_of_any_number_of_named_classes_have_a_small_case(classes: tuple[int, int]) -> None:
    least, most = classes
    named = ["sampler=named_classes", f"classes_min={least}", f"classes_max={most}"]
    (config,) = parse(EvaluateConfig, ["features=x.npz", "strategy=zero_shot", *named])
    assert len(small_case(config)["accuracy"]) == 4


def _moved(fit):  # type: ignore[no-untyped-def]
    def changed(self, values, *arguments, **options):  # type: ignore[no-untyped-def]
        return fit(self, values[:, :1], *arguments, **options)

    return changed


@pytest.mark.parametrize(
    "name",
    [
        b"wsgiref.types:Evil",
        rb'"wsgiref.types\x3aEvil"',
        b"'wsgiref.types: Evil'",
        b"[wsgiref.types:Evil]",
        b"'backurs,wsgiref.types:Evil'",
    ],
)
def test_a_config_that_names_code_does_not_import_it(run: RunRow, tracker: Tracker, name: bytes) -> None:
    config = config_of(tracker, run).replace(b"method: backurs", b"method: " + name)
    sys.modules.pop("wsgiref.types", None)
    assert name in config
    assert outcome_of(run, config) is None
    assert "wsgiref.types" not in sys.modules


@pytest.mark.parametrize("config", [b"[1]", b"method: {", b"\xff", b"nothing: 1", b"seed: 0,1"])
def test_a_config_that_is_damaged_has_no_outcome(run: RunRow, config: bytes) -> None:
    assert outcome_of(run, config) is None


@pytest.mark.parametrize(
    ("now", "repeats"),
    [
        ({"objective": (100.05,), "nmi": (0.51,)}, True),
        ({"objective": (100.2,), "nmi": (0.5,)}, False),
        ({"objective": (100.0,), "nmi": (0.53,)}, False),
        ({"objective": (100.0,)}, False),
        ({"objective": (100.0, 1.0), "nmi": (0.5,)}, False),
        ({"objective": (float("nan"),), "nmi": (0.5,)}, False),
    ],
    ids=str,
)
def test_differences_beyond_rounding_are_seen(now: Mapping[str, tuple[float, ...]], repeats: bool) -> None:
    assert (difference(now, {"objective": (100.0,), "nmi": (0.5,)}) == "") is repeats


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 5000,
        "[]",
        "{}",
        '{"settings": 3}',
        '{"settings": "a", "nmi": 0.5}',
        '{"settings": "a", "nmi": [NaN]}',
        '{"settings": "a", "nmi": [-Infinity]}',
        '{"settings": "a", "nmi": [1e400]}',
        '{"settings": "a", "nmi": [true]}',
        '{"settings": "a", "nmi": ["0.5"]}',
        '{"settings": "a", "nmi": [[0.5]]}',
        '{"settings": "a", "": [0.5]}',
        json.dumps({"settings": "a", "n" * 51: [0.5]}),
        json.dumps({"settings": "a", "nmi": [0.5] * (MOST + 1)}),
        json.dumps({"settings": "a", "nmi": [10**400]}),
    ],
    ids=lambda text: text[:40],
)
def test_forged_outcomes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=SMALL_CASE):
        Outcome.parse(text)


KINDS = {
    "support and no names": (EvaluateConfig, ["strategy=laplacianshot", "benchmark=glyphs", "backbone=conv4"]),
    "tasks of unequal shots": (EvaluateConfig, ["strategy=simpleshot", "features=a.npz", "sampler=unequal_shots"]),
    "names with and without support": (EvaluateConfig, ["strategy=laplacianshot", "features=a.npz"]),
    "tuned": (EvaluateConfig, ["strategy=laplacianshot", "features=a.npz", "weight=0.1,0.5", "tuning=papers"]),
    "audited": (EvaluateConfig, ["strategy=simpleshot", "features=a.npz", "audit=[best_permutation]"]),
    "selected by labels": (ClusterConfig, ["method=kmeans", "dataset=mnist"]),
    "known pairs": (ClusterConfig, ["method=xsdc", "dataset=digits", "links=100", "starts=1"]),
    "known labels": (ClusterConfig, ["method=seeded_kmeans", "dataset=mnist", "labels=50"]),
    "a network": (ClusterConfig, ["method=entropy", "network=small_cnn", "dataset=mnist"]),
    "a network and labels": (ClusterConfig, ["method=labelled", "network=mlp", "dataset=mnist", "labels=5%"]),
    "pseudo-labels": (
        ClusterConfig,
        ["method=xsdc_lenet5", "assignment=pseudo_labels", "dataset=mnist", "labels=50", "starts=1"],
    ),
    "pictures in steps": (ClusterConfig, ["method=xsdc_lenet5", "dataset=mnist", "labels=50", "starts=1"]),
    "groups of a file": (FairConfig, ["method=fair_kmeans", "dataset=bank", "fairness_weight=0,10"]),
    "two groups": (FairConfig, ["method=fair_lloyd", "dataset=adult"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_runs_of_all_kinds_have_a_small_case(kind: str) -> None:
    schema, arguments = KINDS[kind]
    (config,) = parse(schema, arguments)
    numbers = small_case(config)
    outcome = Outcome("0" * 16, numbers)
    assert sum(map(len, numbers.values())) > 1
    assert len(outcome.text()) < 5000
    outcomes._known.clear()
    assert difference(small_case(config), Outcome.parse(outcome.text()).numbers) == ""


def test_pseudo_labels_once_an_epoch_are_part_of_the_small_case() -> None:
    arguments = ["method=miadm,miadm_batch", "network=mlp", "dataset=digits"]
    once, each = map(small_case, parse(ClusterConfig, arguments))
    assert difference(once, each)


def test_a_strategy_on_images_has_none() -> None:
    (config,) = parse(EvaluateConfig, ["strategy=transductive_fine_tuning", "benchmark=glyphs", "backbone=conv4"])
    with pytest.raises(InputError, match="trains on images"):
        small_case(config)


@pytest.mark.parametrize("more", [[], ["weight=0.1,0.5", "tuning=papers"]])
def test_a_run_of_weights_that_are_not_here_has_an_outcome(more: list[str]) -> None:
    typed = ["strategy=laplacianshot", "benchmark=glyphs", "backbone=conv4", "checkpoint=gone.npz", *more]
    (config,) = parse(outcomes.evaluated_with("0" * 16), typed)
    tags = {"stage": "evaluation", "weights": "0" * 16, "data": "1" * 16}
    row = RunRow("2" * 32, "a run", "evaluate/glyphs", 0, 1, "FINISHED", {}, {}, tags, "")
    row = dataclasses.replace(row, tags={**tags, "recipe": outcomes.recipe_of(config, row)})
    text = outcome_of(row, config.to_yaml().encode())
    assert text is not None
    assert why_stale(config, dataclasses.replace(row, tags={**row.tags, SMALL_CASE: text})) == ""
