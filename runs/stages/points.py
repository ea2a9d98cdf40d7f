"""Base of the stages of `transduce cluster` and `transduce fair`: a method on points, and its result."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from runs.cache import Entry, raised
from runs.config.cluster import ClusterConfig
from runs.config.fair import FairConfig
from runs.record.tracked_run import DataUsed
from runs.stages.lineage import cluster_name, short
from runs.stages.revisions import revisions_of
from runs.stages.stage import Computed, Stage

if TYPE_CHECKING:
    from clustering.evaluation.known_labels import KnownLabels
    from runs.stages.clustering.shared_graphs import SharedGraphs

C = TypeVar("C", ClusterConfig, FairConfig)
F = TypeVar("F")
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
        clusters: K.
        known: known labels of some points.
        described: metrics of the points: their number, dimensions, classes, and how unequal these are.
    """

    clusters: int
    known: "KnownLabels | None" = None
    described: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class PointsStage(Stage[Points, F, R], Generic[C, F, R]):
    """One config on points.

    Attributes:
        verb: first part of the names of its experiments.
        config: the config.
        data: fingerprint of the points.
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
    def experiment(self) -> str:
        return f"{self.verb}/{short(self.config.dataset)}"

    @property
    def name(self) -> str:
        return cluster_name(self.config)

    @property
    def tags(self) -> Mapping[str, Any]:
        config = self.config
        known = {"dataset": config.dataset.name, "method": config.method.name, "seed": config.seed, "data": self.data}
        return known | {"revisions": raised(revisions_of(self.config))}

    def computed(
        self, content: F, points: Points, clusters: int, metrics: Mapping[str, float], **tags: object
    ) -> Computed[F]:
        """Return a computed result with what `found` needs.

        Args:
            clusters: K.
            metrics: metrics of the run.
            tags: additional tags.
        """
        count, dimensions = points.shape
        used = DataUsed(short(self.config.dataset), "points", self.data)
        shape = {"points": count, "dimensions": dimensions, "clusters": clusters}
        return Computed(content, metrics, {**shape, **tags}, data=(used,))

    def result(self, content: F, entry: Entry, run_id: str) -> R:
        tags = entry.facts["tags"]
        shape = int(tags["points"]), int(tags["dimensions"])
        return self.found(content, run_id, shape, int(tags["clusters"]), reused=entry.reused)

    @abstractmethod
    def found(self, content: F, run_id: str, shape: tuple[int, int], n_clusters: int, *, reused: bool) -> R:
        """Return the result with that content.

        Args:
            shape: (N, D).
            n_clusters: K.
        """


@dataclass(frozen=True, eq=False)
class ClusteringResult(Generic[C]):
    """One config with its result.

    Attributes:
        config: the config.
        key: key of the result.
        run_id: id of the MLflow run with the result.
        reused: whether it existed before.
        shape: (N, D).
        n_clusters: requested number of clusters K.
    """

    config: C
    key: str
    run_id: str
    reused: bool
    shape: tuple[int, int]
    n_clusters: int
