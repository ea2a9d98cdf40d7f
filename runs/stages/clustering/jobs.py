"""What `transduce cluster` and `transduce fair` have in common: a config on points, its run, and the result."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.stages.lineage import cluster_name, short
from runs.storage.locks import Say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runs.record.tracked_run import TrackedRun
    from runs.record.tracking import Tracker

C = TypeVar("C", ClusterConfig, FairConfig)


class Labelled(Protocol):
    """What is found of points."""

    @property
    def labels(self) -> "NDArray[Any]":
        """(several, N) clusters."""


F = TypeVar("F", bound=Labelled)


class Recorded(NamedTuple, Generic[F]):
    """What the record has of a job: the run, (N, D) and K of what it was fitted on, and the content of its file."""

    run_id: str
    shape: tuple[int, int]
    clusters: int
    found: F


@dataclass(frozen=True)
class ClusteringJob(ABC, Generic[C]):
    """A config on points.

    Attributes:
        config: what is asked for.
        data: identity of the points.
    """

    stage: ClassVar[str]  # tag of its run
    verb: ClassVar[str]  # how the names of its experiments begin

    config: C
    data: str

    @property
    @abstractmethod
    def identity(self) -> str:
        """Of its result."""

    @property
    def recipe(self) -> str:
        """What runs have in common that differ by their seed alone."""
        return dataclasses.replace(self, config=self.config.replace(seed=0)).identity

    @property
    def experiment(self) -> str:
        """That its run belongs to."""
        return f"{self.verb}/{short(self.config.dataset)}"

    @property
    def name(self) -> str:
        """What a person calls it."""
        return cluster_name(self.config)

    def start(self, shape: tuple[int, int], clusters: int, tracker: "Tracker", **tags: str) -> "TrackedRun":
        """Its run in the record.

        Args:
            shape: (N, D). clusters: K.
            tags: besides those that every clustering has.
        """
        config = self.config
        points, dimensions = shape
        return tracker.start(
            self.experiment,
            self.name,
            stage=self.stage,
            identity=self.identity,
            params=config.flat(),
            config=config.to_yaml(),
            tags={
                "recipe": self.recipe,
                "dataset": config.dataset.name,
                "method": config.method.name,
                "seed": config.seed,
                "data": self.data,
                "points": points,
                "dimensions": dimensions,
                "clusters": clusters,
                **tags,
            },
        )

    def recorded(self, tracker: "Tracker", file: str, load: Callable[[Path], F], say: Say) -> Recorded[F] | None:
        """What the record has of it; None where that is missing, or not whole, which is said.

        Args:
            file: of the run that holds the result. load: reads it.
        """
        run = tracker.find(self.experiment, self.identity) if tracker.exists() else None
        if run is None:
            return None
        tags, run_id = run.data.tags, run.info.run_id
        try:
            found = tracker.read(run_id, file, load, run.info.artifact_uri)
            shape = int(tags["points"]), int(tags["dimensions"])
            if found.labels.shape[1] != shape[0]:
                raise ValueError(f"it is of {found.labels.shape[1]} points, not {shape[0]}")
            return Recorded(run_id, shape, int(tags["clusters"]), found)
        except (ValueError, KeyError) as error:
            say(f"{self.name}: {file} of run {run_id} is no longer whole ({error}): done again")
            return None


@dataclass(frozen=True, eq=False)
class ClusteringResult(Generic[C]):
    """One config with where its result is from.

    Attributes:
        config: what was asked for.
        identity: of the result.
        run_id: the MLflow run that holds it.
        reused: it was there already.
        shape: (N, D).
        n_clusters: K that was looked for.
    """

    config: C
    identity: str
    run_id: str
    reused: bool
    shape: tuple[int, int]
    n_clusters: int
