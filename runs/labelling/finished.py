"""The run of a finished session in the record."""

from typing import TYPE_CHECKING, Any

from runs.cache import Store, key
from runs.labelling.export import export
from runs.labelling.label_config import LabelConfig
from runs.labelling.views import accuracy
from runs.stages.lineage import short
from runs.stages.stage import set_values

if TYPE_CHECKING:
    from runs.labelling.session import Session
    from runs.track import Tracker

STAGE = "label"
POINTS = 100  # maximum number of recorded times of answers


def record(session: "Session", config: LabelConfig, store: Store, tracker: "Tracker") -> dict[str, Any]:
    """Record the session as a run, with its export, unless a run with the same answers exists.

    The labels given over time are the metric `minutes` at each number of labels.

    Returns:
        Facts about the session, for JSON; without a run if there are no answers.
    """
    states = [session.answers[item].state for item in session.pile.ids]
    found = accuracy(session)
    facts: dict[str, Any] = {
        "session": str(session.folder),
        "items": len(states),
        **{state: states.count(state) for state in ("labelled", "none", "skipped")},
        "classes": list(session.classes),
        "accuracy": None if found is None else {name: found[name] for name in ("estimate", "low", "high", "audited")},
    }
    if not session.answers.number:
        return facts
    files = [export(session, "csv"), export(session, "parquet")]
    answers = [[item, *entry] for item, entry in sorted(session.answers.entries().items())]
    same = key(STAGE, config.result_keys(), {"pile": session.pile.fingerprint, "answers": answers}, {})
    experiment = f"{STAGE}/{session.pile.name}"
    with store.lock(STAGE, same, "this session", tracker.say):
        earlier = tracker.find(same)
        if earlier is not None:
            return {**facts, "files": list(map(str, files)), "run": str(earlier.info.run_id), "reused": True}
        run = tracker.unfinished(experiment, [same]).get(same) or tracker.start(
            experiment,
            f"{short(config.strategy)} {facts['labelled']} labels",
            stage=STAGE,
            key=same,
            params=set_values(config),
            flat=config.flat(),
            config=config.to_yaml(),
            tags={"strategy": config.strategy.name, "session": session.folder.name, "items": len(states)},
        )
        with run.guarded():
            for step, values in _over_time(session, found):
                run.metrics(values, step)
            for file in files:
                run.artifact(file)
            run.artifact(session.journal.path)
            run.finish()
    return {**facts, "files": list(map(str, files)), "run": run.run_id, "reused": False}


def _over_time(session: "Session", found: dict[str, Any] | None) -> list[tuple[int, dict[str, float]]]:
    """Minutes since the first answer, and estimated accuracy, by number of labels."""
    times = session.answers.times
    first = times[0][0]
    by_labels: dict[int, dict[str, float]] = {}
    for time, labels in times[:: max(1, -(-len(times) // POINTS))] + times[-1:]:
        by_labels[labels] = {"labels": labels, "minutes": (time - first) / 60}
    for point in [] if found is None else found["curve"]:
        names = {"estimated_accuracy": "estimate", "estimated_accuracy_low": "low", "estimated_accuracy_high": "high"}
        values = by_labels.setdefault(point["labels"], {})
        values.update({metric: point[name] for metric, name in names.items()})
    return sorted(by_labels.items())
