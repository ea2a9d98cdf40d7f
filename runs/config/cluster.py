"""What `transduce cluster` takes."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, Within
from runs.config.base import RunConfig, content, key
from runs.config.groups import Choice

NONE = "none"  # the network that is none
STARTS = 10  # fits where nothing is said


@dataclass(frozen=True, kw_only=True)
class ClusterConfig(RunConfig):
    """One method on one data set: `transduce cluster`."""

    dataset: Choice
    method: Choice
    network: Choice
    n_clusters: Annotated[int, AtLeast(1)] | None = key(
        None, "clusters to find; null: as many as the data set has classes"
    )
    labels: str | None = key(
        None,
        "points of known class: 50, as many of each class, or 5% of all points, drawn; or FILE.csv with some rows' or "
        "files' own; the others are judged",
    )
    wrong: Annotated[float, Within(0, 1)] = key(
        0.0, "share of the drawn labels that get a random class; methods that smooth labels are told it"
    )
    links: Annotated[int, AtLeast(1)] | None = key(
        None,
        "pairs of points of which it is known whether they are of one class, drawn from its classes; without "
        "labels all points are judged, these among them",
    )
    coarse: tuple[str | int, ...] | None = key(
        None,
        "some classes, as [4, 9]: of a random half of the points it is known whether their class is one of them; the "
        "others are judged",
    )
    starts: Annotated[int, Within(1, 1000)] | None = key(
        None,
        f"fits, each with a seed of its own, of which the lowest objective is taken; null: {STARTS}, of a network one",
    )
    selection: str | None = key(
        "papers", "settings tried for the column that labels select: papers, or FILE.yaml; null: no such column"
    )

    output: str | None = key(
        None,
        "of dataset=table: file for its rows with their clusters, and beside it the page; of dataset=folder: CSV file "
        "of pictures and clusters; null: in the results folder",
        execution=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        labels = self.asked_labels()
        if self.wrong and not isinstance(labels, int | float):
            raise InputError(
                f"wrong={self.wrong:g}: a share of labels that are drawn; give their number or share, as labels=50%, "
                "or leave wrong out"
            )
        if self.coarse is not None:
            object.__setattr__(self, "coarse", tuple(sorted(set(map(str, self.coarse)))))  # they are a set
        if self.starts is None:
            object.__setattr__(self, "starts", 1 if self.learns else STARTS)
        elif self.learns and self.starts > 1:
            raise InputError(
                f"starts={self.starts}: with network={self.network.name} each training is a run of its own; leave "
                "starts out and give several seeds, as seed=0,1,2"
            )

    @property
    def learns(self) -> bool:
        """Whether a network is trained."""
        return self.network.name != NONE

    @property
    def fits(self) -> int:
        """How many starts there are."""
        return self.starts or 1

    def asked_labels(self) -> "int | float | str | None":
        """Known labels: how many, what share, the file that has them, or None."""
        text = (self.labels or "").strip()
        if self.labels is not None and not text:
            raise InputError("labels= is empty; give a number, a share as 5%, or FILE.csv, or leave it out")
        if re.fullmatch(r"\d+", text):
            return int(text) or None
        share = re.fullmatch(r"(\d*\.?\d+)(%?)", text)
        if share is None:
            if text.lower() == "all":
                raise InputError("labels=all: leaves no points to be clustered; give a number, a share, or FILE.csv")
            return text or None
        found = float(share[1]) / (100 if share[2] else 1)
        if not 0 <= found < 1:
            raise InputError(f"labels={text}: leaves no points to be clustered; give less than 100%, as 5% or 0.05")
        return found or None

    def result_keys(self) -> dict[str, Any]:
        """As for every run; a file of labels counts by its content. What is in the data set's files, and in the
        selection's, is apart.

        Raises:
            InputError: where the file of labels is not there.
        """
        kept = super().result_keys()
        kept.pop("dataset.path", None)
        del kept["selection"]
        labels = self.asked_labels()
        kept["labels"] = (
            content("labels", labels, "a number, or a file of labels") if isinstance(labels, str) else labels
        )
        if labels is None:
            del kept["labels"]
        if not self.wrong:
            del kept["wrong"]
        if not self.learns:
            del kept["network"]
        if self.links is None:
            del kept["links"]
        if self.coarse is None:
            del kept["coarse"]
        return kept
