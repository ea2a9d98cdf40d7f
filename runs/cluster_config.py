"""What `transduce cluster` takes."""

from dataclasses import dataclass
from typing import Annotated, Any

from clustering.parameters import AtLeast, Within
from runs.groups import Choice
from runs.run_config import RunConfig, key


@dataclass(frozen=True, kw_only=True)
class ClusterConfig(RunConfig):
    """One method on one data set: `transduce cluster`."""

    dataset: Choice
    method: Choice
    n_clusters: Annotated[int, AtLeast(1)] | None = key(
        None, "clusters to find; null: as many as the data set has classes"
    )
    starts: Annotated[int, Within(1, 1000)] = key(
        10, "fits, each with a seed of its own, of which the lowest objective is taken"
    )
    selection: str | None = key(
        "papers", "settings tried for the column that labels select: papers, or FILE.yaml; null: no such column"
    )

    output: str | None = key(
        None,
        "of dataset=table: file for its rows with their clusters, and beside it the page; null: in the results folder",
        execution=True,
    )

    def result_keys(self) -> dict[str, Any]:
        """As for every run. What is in the data set's files, and in the selection's, is apart."""
        kept = super().result_keys()
        kept.pop("dataset.path", None)
        del kept["selection"]
        return kept
