"""Base of the stages of `transduce cluster` and `transduce fair`: a method on points, and its result."""

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.record.unrecorded import Made
from runs.stages.lineage import cluster_name, short
from runs.stages.stage import Begun, Stage, Workspace
from runs.storage.locks import Say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from clustering.evaluation.known_labels import KnownLabels
    from runs.record.tracked_run import TrackedRun
    from runs.stages.clustering.shared_graphs import SharedGraphs
    from runs.track import Tracker

C = TypeVar("C", ClusterConfig, FairConfig)


class Labelled(Protocol):
    """The labels found for points."""

    @property
    def labels(self) -> "NDArray[Any]":
        """(T, N) clusters of T clusterings."""


F = TypeVar("F", bound=Labelled)
R = TypeVar("R")


class Points(NamedTuple):
    """A data set and its neighbour graphs."""

    data: Any
    graphs: "SharedGraphs"

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        count, dimensions = self.data.values.shape
        return count, dimensions


class Problem(NamedTuple):
    """The input of a method besides the points.

    Attributes:
        shape: (N, D) of the points.
        clusters: K.
        known: known labels of some points.
        training: training settings of a method that learns features.
        described: metrics of the points: their number, dimensions, classes, and how unequal these are.
    """

    shape: tuple[int, int]
    clusters: int
    known: "KnownLabels | None" = None
    training: Any = None
    described: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class PointsStage(Stage[Points, F, R], Generic[C, F, R]):
    """One config on points.

    Attributes:
        verb: first part of the names of its experiments.
        config: the config.
        data: identity of the points.
        source: the built data set.
    """

    verb: ClassVar[str]

    config: C
    data: str
    source: Any

    @property
    def shared(self) -> object:
        return self.config.dataset, self.data

    @property
    def recipe(self) -> str:
        """The identity shared by runs that differ only in their seed."""
        return dataclasses.replace(self, config=self.config.replace(seed=0)).identity

    @property
    def experiment(self) -> str:
        return f"{self.verb}/{short(self.config.dataset)}"

    @property
    def name(self) -> str:
        return cluster_name(self.config)

    def start(self, shape: tuple[int, int], clusters: int, tracker: "Tracker", **tags: str) -> "TrackedRun":
        """Start a run in the record.

        Args:
            shape: (N, D).
            clusters: K.
            tags: additional tags.
        """
        config = self.config
        points, dimensions = shape
        return tracker.start(
            self.experiment,
            self.name,
            stage=self.kind,
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

    @abstractmethod
    def found(self, content: F, run_id: str, shape: tuple[int, int], n_clusters: int, *, reused: bool) -> R:
        """Return the result with that content.

        Args:
            shape: (N, D).
            n_clusters: K.
        """

    def result(self, made: Made[F], begun: Begun, work: Workspace) -> R:
        return self.found(made.content, begun.run.run_id, begun.state.shape, begun.state.clusters, reused=False)

    def recorded(self, tracker: "Tracker", say: Say) -> R | None:
        run = tracker.find(self.experiment, self.identity) if tracker.exists() else None
        if run is None:
            return None
        tags, run_id = run.data.tags, run.info.run_id
        try:
            content = tracker.read(run_id, self.file, self.load, run.info.artifact_uri)
            shape = int(tags["points"]), int(tags["dimensions"])
            if content.labels.shape[1] != shape[0]:
                raise ValueError(f"it is of {content.labels.shape[1]} points, not {shape[0]}")
            return self.found(content, run_id, shape, int(tags["clusters"]), reused=True)
        except (ValueError, KeyError) as error:
            say(f"{self.name}: {self.file} of run {run_id} is no longer whole ({error}): done again")
            return None


@dataclass(frozen=True, eq=False)
class ClusteringResult(Generic[C]):
    """One config with its result.

    Attributes:
        config: the config.
        identity: identity of the result.
        run_id: id of the MLflow run with the result.
        reused: whether it existed before.
        shape: (N, D).
        n_clusters: requested number of clusters K.
    """

    config: C
    identity: str
    run_id: str
    reused: bool
    shape: tuple[int, int]
    n_clusters: int
