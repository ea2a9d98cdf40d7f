"""Audits: known flaws of evaluation that inflate accuracies, measured separately from the accuracy.

An audit is computed for strategies on the same tasks as the accuracy; `docs/methods/audits.md` shows how much each
inflates. Two audits use the true labels of the queries, which strategies never get: this is the flaw they measure.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clustering.foundation.errors import InputError, unknown
from fsl.episodes import Strategy
from fsl.tasks import Tasks

Labels = Mapping[str, Tensor]
"""(B, Q) predicted class of each query, by strategy."""

Predict = Callable[[Mapping[str, Strategy], Tasks], Labels]
"""Function that runs strategies on other tasks over the same bank."""

Audit = Callable[[Mapping[str, Strategy], Labels, Tasks, Predict], dict[str, Tensor]]
"""Function that returns (B,) accuracies by strategy, from the predicted labels on the tasks."""


def best_permutation(
    strategies: Mapping[str, Strategy], labels: Labels, tasks: Tasks, predict: Predict
) -> dict[str, Tensor]:
    """Accuracy after the best relabelling of each task's predictions, see `best_permutation_accuracy`."""
    return {
        name: best_permutation_accuracy(predicted, tasks.query_labels, tasks.way, tasks.query_mask)
        for name, predicted in labels.items()
    }


def per_true_class(
    strategies: Mapping[str, Strategy], labels: Labels, tasks: Tasks, predict: Predict
) -> dict[str, Tensor]:
    """Accuracy if the queries of each true class are predicted in a separate episode with the whole support, as in the
    public iNat script of LaplacianShot (thesis Table 4.3). The graph, the shift and the prototypes then only use
    queries of one class. Inductive strategies are not affected."""
    right = {name: torch.zeros(len(tasks), dtype=torch.float64) for name in labels}
    for part, origin in true_class_tasks(tasks):
        for name, predicted in predict({name: strategies[name] for name in labels}, part).items():
            right[name].index_add_(0, origin, (predicted == part.query_labels).mul_(_counted(part)).sum(1).double())
    return {name: count / _counted(tasks).sum(1) for name, count in right.items()}


def directed_with_self(
    strategies: Mapping[str, Strategy], labels: Labels, tasks: Tasks, predict: Predict
) -> dict[str, Tensor]:
    """Accuracy with the graph of the public LaplacianShot and SLK code: directed arcs from each point to its k nearest
    neighbours, of which the point itself is one and then removed; with the unguarded update, which does not minimise an
    objective."""
    predictions = predict({name: on_published_graph(name, strategies[name]) for name in labels}, tasks)
    counted = _counted(tasks)
    return {
        name: (predicted == tasks.query_labels).mul_(counted).sum(1).double() / counted.sum(1)
        for name, predicted in predictions.items()
    }


def _counted(tasks: Tasks) -> Tensor:
    """(B, Q) bool, False for padded queries."""
    return torch.ones_like(tasks.query, dtype=torch.bool) if tasks.query_mask is None else tasks.query_mask


AUDITS: Mapping[str, Audit] = {
    "best_permutation": best_permutation,
    "per_true_class": per_true_class,
    "directed_with_self": directed_with_self,
}


def check_audits(audits: Sequence[str], name: str, strategy: Any) -> None:
    """Check that the audits are known and apply to a strategy.

    Raises:
        InputError: an audit is unknown, or needs a graph that the strategy does not have.
    """
    for audit in audits:
        if audit not in AUDITS:
            raise unknown("audit", audit, AUDITS)
    if "directed_with_self" in audits:
        on_published_graph(name, strategy)


def on_published_graph(name: str, strategy: Any) -> Any:
    """A strategy with the published graph: a copy, unless its graph is directed already, as in published forms.

    Raises:
        InputError: the strategy has no graph.
    """
    fields = {field.name for field in dataclasses.fields(strategy)} if dataclasses.is_dataclass(strategy) else set()
    if not {"graph", "n_neighbors"} <= fields:
        raise InputError(
            f"the audit directed_with_self needs a strategy with a neighbour graph (fields graph, n_neighbors), which "
            f"{name} does not have; omit the audit or the strategy"
        )
    if strategy.graph == "directed":
        return strategy
    if strategy.n_neighbors < 2:
        raise InputError(
            f"the audit directed_with_self counts the point itself, which leaves {name} no other neighbour; set "
            "n_neighbors=2 or more, or omit the audit"
        )
    return dataclasses.replace(strategy, graph="directed", n_neighbors=strategy.n_neighbors - 1)


def best_permutation_accuracy(predicted: Tensor, labels: Tensor, way: int, query_mask: Tensor | None = None) -> Tensor:
    """(B,) accuracy after the relabelling of each task's predictions with the highest accuracy.

    The LaplacianShot tables of the thesis (4.1, 4.2, 4.4) were scored in this way. It is not a valid accuracy, because
    the support labels define the classes. It is never below the plain accuracy.

    Args:
        predicted: (B, Q) predicted class, 0..way-1.
        labels: (B, Q) true class.
        way: number of classes.
        query_mask: (B, Q) bool, False for padded queries.
    """
    from scipy.optimize import linear_sum_assignment

    mask = torch.ones_like(labels) if query_mask is None else query_mask.long()
    pairs = predicted * way + labels + torch.arange(len(labels))[:, None] * way**2
    counts = torch.zeros(len(labels) * way**2, dtype=torch.int64).index_add_(0, pairs.flatten(), mask.flatten())
    confusions = counts.reshape(-1, way, way).numpy()
    matched = [confusion[linear_sum_assignment(-confusion)].sum() for confusion in confusions]
    return torch.from_numpy(np.array(matched)).double() / mask.sum(dim=1)


def true_class_tasks(tasks: Tasks) -> Iterator[tuple[Tasks, Tensor]]:
    """Class by class, the tasks with only their queries of this true class, and the indices of their original tasks;
    without tasks that have no such query."""
    counted = _counted(tasks)
    for label in range(tasks.way):
        own = (tasks.query_labels == label) & counted
        origin = own.any(dim=1).nonzero()[:, 0]
        if not len(origin):
            continue
        counts = own[origin].sum(dim=1, keepdim=True)
        places = own[origin].byte().argsort(dim=1, descending=True, stable=True)[:, : int(counts.max())]
        mask = torch.arange(places.shape[1]) < counts
        yield (
            dataclasses.replace(
                tasks[origin],
                query=tasks.query[origin].gather(1, places),
                query_labels=torch.full_like(places, label),
                query_mask=None if bool(mask.all()) else mask,
            ),
            origin,
        )
