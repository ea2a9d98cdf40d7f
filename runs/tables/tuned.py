"""Tunings as rows of a table, a sentence and JSON."""

from typing import TYPE_CHECKING, Any

from runs.stages.lineage import evaluate_name

if TYPE_CHECKING:
    from fsl.evaluation.paired import Difference
    from runs.stages.curves import Curve
    from runs.stages.tuning import Tuning


def row(tuning: "Tuning", curve: "Curve") -> dict[str, str]:
    """Return the row of one tuning step."""
    chosen = curve.chosen
    return {
        "classes": curve.step.split,
        "tasks": f"{curve.step.tasks:,}",
        "tried": f"{len(curve.trials)}",
        "chosen": str(chosen),
        "accuracy": f"{100 * chosen.result.accuracy:.2f} ± {100 * chosen.result.ci95:.2f} %",
        "default": "" if curve.default is None else str(curve.default),
        "gain": "" if curve.gain is None or chosen is curve.default else _points(curve.gain),
        "": "reused" if tuning.reused else "new",
    }


def _points(difference: "Difference") -> str:
    """Return a difference in percentage points with its 95 % interval, marked if the interval contains 0."""
    chance = "" if difference.excludes_zero else ", not significant"
    return f"{100 * difference.mean:+.2f} ({100 * difference.low:+.2f} to {100 * difference.high:+.2f}{chance})"


def statement(tuning: "Tuning", novel: "Curve") -> str:
    """Return the accuracy of the chosen values on the novel classes, compared with the best values there."""
    chosen, best = novel.chosen, novel.best
    name = f"{evaluate_name(tuning.config)}, {len(chosen.result.accuracies):,} novel tasks"
    result = f"{chosen} (chosen): {100 * chosen.result.accuracy:.2f} ± {100 * chosen.result.ci95:.2f} %"
    if best is chosen:
        return f"{name}: {result}, the best of {len(novel.trials)}"
    return f"{name}: {result}; the best, {best}: {_points(novel.lost)}"


def as_json(tuning: "Tuning") -> dict[str, Any]:
    """Return a tuning as a dictionary for JSON."""
    return {
        "config": tuning.config.as_json(),
        "key": tuning.tuned.key,
        "run": tuning.tuned.run_id,
        "reused": tuning.reused,
        "chosen": dict(tuning.tuned.values),
        "steps": [curve.as_dict() for curve in tuning.curves],
        "novel": None if tuning.novel is None else tuning.novel.as_dict(),
    }
