"""Classified pictures on the console: by class, by strategy, and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runs.console.output import Console
from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.own_data.classification import Classified


def show(result: "Classified", console: Console) -> None:
    truth = result.truth
    by_name = not len(result.classifier.support_)
    rows = []
    for place, name in enumerate(result.classes):
        predicted = [row for row, label in enumerate(result.labels) if label == name]
        certain = [float(result.probabilities[row].max()) for row in predicted]
        right = {}
        if truth is not None:
            right["correct"] = f"{sum(truth[row] == name for row in predicted):,}"
            right["in its folder"] = f"{truth.count(name):,}"
        rows.append(
            {
                "class": name,
                **({} if by_name else {"labelled": f"{int((result.classifier.support_labels_ == place).sum()):,}"}),
                "predicted": f"{len(predicted):,}",
                **right,
                "confidence": f"{sum(certain) / len(certain):.2f}" if certain else "",
            }
        )
    title = (
        f"{len(result.names):,} {result.noun}{'' if len(result.names) == 1 else 's'} in {len(result.classes)} classes"
    )
    if result.accuracy is not None:
        title += f"; {100 * result.accuracy:.1f} % agree with the class name of their folder"
    console.table(rows, title=title, right=("labelled", "predicted", "correct", "in its folder", "confidence"))


def compare(results: "Sequence[Classified]", console: Console) -> None:
    """Show for each strategy the number of pictures in each class, and the agreement with the first strategy."""
    first = results[0]
    rows = []
    for result in results:
        equal = sum(predicted == other for predicted, other in zip(result.labels, first.labels, strict=True))
        right = {} if result.accuracy is None else {"correct": f"{100 * result.accuracy:.1f} %"}
        rows.append(
            {
                "strategy": short(result.config.strategy),
                **{f"in {name}": f"{result.labels.count(name):,}" for name in first.classes},
                **right,
                "confidence": f"{float(result.probabilities.max(axis=1).mean()):.2f}",
                "same as first": f"{equal:,} of {len(first.labels):,}",
            }
        )
    title = f"{len(first.names):,} {first.noun}s in {len(first.classes)} classes, by strategy"
    console.table(rows, title=title, right=list(rows[0])[1:])


def facts(result: "Classified") -> dict[str, Any]:
    return {
        "config": result.config.as_json(),
        "pictures": len(result.names),
        "classes": list(result.classes),
        "predictions": dict(zip(result.names, result.labels, strict=True)),
        "accuracy": result.accuracy,
        "warnings": list(result.warnings),
        "broken": list(result.broken),
    }
