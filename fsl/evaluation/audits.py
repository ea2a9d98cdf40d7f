"""Audits: known ways to measure too much, kept apart from accuracy so that they are never taken for it.

Each is measured beside the accuracy, by name, for any strategies on the same tasks; `docs/methods/audits.md` shows how
much each inflates. Two of them use the true labels of the queries, which no strategy ever sees: that is what is
audited.
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
"""(B, Q) predicted class of every query, by strategy."""

Predict = Callable[[Mapping[str, Strategy], Tasks], Labels]
"""Strategies on other tasks over the same bank."""

Audit = Callable[[Mapping[str, Strategy], Labels, Tasks, Predict], dict[str, Tensor]]
"""(B,) accuracies by strategy, of strategies that predicted these labels on these tasks."""


def best_permutation(
    strategies: Mapping[str, Strategy], labels: Labels, tasks: Tasks, predict: Predict
) -> dict[str, Tensor]:
    """Scored by the relabelling of each task's predictions that does best, see `best_permutation_accuracy`."""
    return {
        name: best_permutation_accuracy(predicted, tasks.query_labels, tasks.way, tasks.query_mask)
        for name, predicted in labels.items()
    }


def per_true_class(
    strategies: Mapping[str, Strategy], labels: Labels, tasks: Tasks, predict: Predict
) -> dict[str, Tensor]:
    """The queries of each true class are predicted in an episode of their own, with the whole support, as the public
    iNat script of LaplacianShot did (thesis Table 4.3): a graph, a shift or a prototype then only ever meets queries
    of one class. Without effect on a strategy that is not transductive."""
    right = {name: torch.zeros(len(tasks), dtype=torch.float64) for name in labels}
    asked = torch.zeros(len(tasks), dtype=torch.float64)
    for part, origin in true_class_tasks(tasks):
        mask = torch.ones_like(part.query_labels) if part.query_mask is None else part.query_mask.long()
        asked.index_add_(0, origin, mask.sum(1).double())
        for name, predicted in predict({name: strategies[name] for name in labels}, part).items():
            right[name].index_add_(0, origin, ((predicted == part.query_labels) * mask).sum(1).double())
    return {name: count / asked for name, count in right.items()}


def directed_with_self(
    strategies: Mapping[str, Strategy], labels: Labels, tasks: Tasks, predict: Predict
) -> dict[str, Tensor]:
    """The same strategy on the graph of the public LaplacianShot and SLK code: the arcs of each point to its k nearest,
    itself counted and then dropped, never symmetrised, with the update unguarded since it descends no objective."""
    found = predict({name: on_published_graph(name, strategies[name]) for name in labels}, tasks)
    truth = tasks.query_labels
    mask = torch.ones_like(truth) if tasks.query_mask is None else tasks.query_mask.long()
    return {name: ((predicted == truth) * mask).sum(1).double() / mask.sum(1) for name, predicted in found.items()}


AUDITS: Mapping[str, Audit] = {
    "best_permutation": best_permutation,
    "per_true_class": per_true_class,
    "directed_with_self": directed_with_self,
}


def check_audits(audits: Sequence[str], name: str, strategy: Any) -> None:
    """That every audit is known and can be had of a strategy.

    Raises:
        InputError: an unknown audit, or one that needs a graph of a strategy without.
    """
    for audit in audits:
        if audit not in AUDITS:
            raise unknown("audit", audit, AUDITS)
    if "directed_with_self" in audits:
        on_published_graph(name, strategy)


def on_published_graph(name: str, strategy: Any) -> Any:
    """A strategy with the published graph in place of its own.

    Raises:
        InputError: it has no such graph.
    """
    published = {"graph": "directed", "include_self": True, "step": "published"}
    fields = {field.name for field in dataclasses.fields(strategy)} if dataclasses.is_dataclass(strategy) else set()
    if not published.keys() <= fields:
        raise InputError(
            f"strategy {name} has no neighbour graph of its own (fields {', '.join(published)}), so the audit "
            "directed_with_self cannot be measured of it; leave the audit or the strategy out"
        )
    return dataclasses.replace(strategy, **published)


def best_permutation_accuracy(predicted: Tensor, labels: Tensor, way: int, query_mask: Tensor | None = None) -> Tensor:
    """(B,) accuracy after relabelling each task's predictions in the way that scores highest.

    The accuracies of the thesis' LaplacianShot tables (4.1, 4.2, 4.4) were scored so; support labels fix what a
    class is, so only the plain accuracy is one. Never below the plain accuracy.

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
    """Tasks with the queries of one true class each, and the index of the task that each was part of.

    They come in groups of similar size, none larger than the B tasks that they are made of: whatever a strategy needs
    for those, it needs no more for these.
    """
    truth = tasks.query_labels if tasks.query_mask is None else tasks.query_labels.where(tasks.query_mask, tasks.way)
    order = truth.argsort(dim=1, stable=True)  # the queries of class 0, those of class 1, ..., padding
    keys = truth + torch.arange(len(tasks))[:, None] * (tasks.way + 1)
    counts = torch.bincount(keys.flatten(), minlength=len(tasks) * (tasks.way + 1)).reshape(len(tasks), -1)[:, :-1]
    starts = counts.cumsum(1) - counts
    origin, label = counts.nonzero(as_tuple=True)
    by_size = counts[origin, label].argsort(stable=True)
    size, support = int(counts.max()), tasks.support.shape[1]
    at_once = max(1, len(tasks) * (support + tasks.query.shape[1]) // (support + size))
    for chosen in torch.split(by_size, at_once):
        task, one = origin[chosen], label[chosen]
        count = counts[task, one]
        places = torch.arange(int(count.max()))
        mask = places < count[:, None]
        rows = order[task[:, None], starts[task, one][:, None] + places.where(mask, 0)]
        yield (
            dataclasses.replace(
                tasks[task],
                query=tasks.query[task[:, None], rows],
                query_labels=one[:, None].expand_as(rows),
                query_mask=None if mask.all() else mask,
            ),
            task,
        )
