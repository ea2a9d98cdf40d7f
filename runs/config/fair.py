"""The config of `transduce fair`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from runs.config.base import RunConfig, key
from runs.config.groups import Choice

METRICS = {
    "fairness_weight": "weights",
    "objective": "objective",
    "price_of_fairness": "price",
    "fairness_error": "fairness_error",
    "balance": "balance_min",
    "balance_mean": "balance_mean",
    "clusters_found": "clusters",
    "absent_groups": "absent",
    "converged": "converged",
    "iterations": "iterations",
    "seconds_fit": "seconds",
}
"""Metrics recorded for each weight, with the attribute of `runs.stages.fair.results.TradeOff` that holds them."""


@dataclass(frozen=True, kw_only=True)
class FairConfig(RunConfig):
    """One method on one data set, for all weights: `transduce fair`."""

    offered: ClassVar[Mapping[str, str]] = {"dataset": "fair_dataset", "method": "fair_method"}

    dataset: Choice
    method: Choice
    n_clusters: Annotated[int, AtLeast(1)] | None = key(None, "number of clusters; null: as in the papers")
    fairness_weight: tuple[Annotated[float, AtLeast(0)], ...] | None = key(
        None,
        "weights of the fairness term, all in one run: 0,10,100; null: 0 and 13 logarithmically spaced weights, scaled "
        "to the data. Methods without a weight ignore it",
    )
    output: str | None = key(
        None, "dataset=table: file for the rows, beside the page; null: in the results folder", execution=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fairness_weight is not None:
            if not self.fairness_weight:
                raise InputError("fairness_weight must hold at least one weight; omit it for the default weights")
            weights = {float(weight) for weight in self.fairness_weight}
            if self.dataset.plugin == "table":
                weights.add(0.0)  # the reference of the page
            object.__setattr__(self, "fairness_weight", tuple(sorted(weights)))

    def result_keys(self) -> dict[str, Any]:
        """Return the keys that can change the result; the contents of the data set's files are added separately."""
        kept = super().result_keys()
        kept.pop("dataset.path", None)
        return kept
