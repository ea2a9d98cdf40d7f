"""Base of the stages of `transduce cluster` and `transduce fair`: a method on points, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from runs.cache import Entry, key, raised
from runs.record.tracked_run import DataUsed
from runs.stages.lineage import cluster_name, revisions_of, short
from runs.stages.stage import Computed, Stage, Workspace
from runs.tables.keys import cell_keys

if TYPE_CHECKING:
    from runs.stages.clustering.shared_graphs import SharedGraphs


class Points(NamedTuple):
    """A data set and its neighbour graphs."""

    data: Any
    graphs: "SharedGraphs"


@dataclass(frozen=True, kw_only=True)
class PointsStage(Stage):
    """One config on points."""

    source: Any  # the built data set
    data: str  # fingerprint of the points

    @classmethod
    def described(cls, verb: str, config: Any, keys: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of a stage. The data set is built, which checks its values and that files exist.

        Args:
            verb: first part of the name of the experiment.
            keys: result keys of the config.
            inputs: those of the key besides the points.
        """
        source = config.dataset.build()
        data, revisions = source.source(), revisions_of(config)
        known = {"dataset": config.dataset.name, "method": config.method.name, "seed": config.seed, "data": data}
        return {
            "config": config,
            "key": key(cls.kind, keys, {"data": data, **inputs}, revisions),
            "experiment": f"{verb}/{short(config.dataset)}",
            "name": cluster_name(config),
            "tags": {**known, "revisions": raised(revisions), "cell": cell_keys(config)},
            "shared": (config.dataset, data),
            "source": source,
            "data": data,
        }

    def read(self) -> Any:
        """Read the points, in their order."""
        return self.source.read()

    def prepare(self, work: Workspace) -> Points:
        from runs.stages.clustering.shared_graphs import SharedGraphs

        if getattr(self.source, "root", None):  # reading files may take a while
            work.progress.note(f"reading {short(self.config.dataset)}")
        data = self.read()
        return Points(data, SharedGraphs(data.values, work.progress))

    def computed(
        self, content: Any, points: Points, clusters: int, metrics: Mapping[str, float], **tags: object
    ) -> Computed:
        """Return a computed result of K clusters, with what `about` needs and additional tags."""
        count, dimensions = points.data.values.shape
        tags |= {"points": count, "dimensions": dimensions, "clusters": clusters}
        used = DataUsed(short(self.config.dataset), "points", self.data)
        return Computed(content, metrics, tags, data=(used,))

    def about(self, entry: Entry, run_id: str) -> tuple[Any, str, str, bool, tuple[int, int], int]:
        """Return the first fields of a result, those of `ClusteringResult`."""
        points, dimensions, clusters = (int(entry.facts["tags"][name]) for name in ("points", "dimensions", "clusters"))
        return self.config, self.key, run_id, entry.reused, (points, dimensions), clusters


@dataclass(frozen=True, eq=False)
class ClusteringResult:
    """One config with its result."""

    config: Any  # the config
    key: str  # key of the result
    run_id: str  # id of the MLflow run with the result
    reused: bool  # whether it existed before
    shape: tuple[int, int]  # (N, D)
    n_clusters: int  # requested number of clusters K


def check_labels(labels: Any) -> None:
    """Raise ValueError unless a file has (T, N) integer labels."""
    if labels.ndim != 2 or labels.dtype.kind not in "iu":
        raise ValueError("labels that are none")
