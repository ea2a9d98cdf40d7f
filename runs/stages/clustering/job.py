"""One clustering that is asked for: a config, the points that it is on, and what its result is known by."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from clustering.evaluation.protocol import Selection
from clustering.foundation.code import code_fingerprint
from clustering.foundation.errors import InputError
from runs.config.base import identity
from runs.config.cluster import ClusterConfig
from runs.config.selections import selection_of
from runs.stages.clustering.jobs import ClusteringJob

if TYPE_CHECKING:
    from clustering.datasets.dataset import Source

STAGE = "clustering"


@dataclass(frozen=True)
class Job(ClusteringJob[ClusterConfig]):
    """One config, and what it stands on.

    Attributes:
        source: the built data set.
        selection: what labels choose from.
    """

    stage, verb = STAGE, "cluster"

    source: "Source"
    selection: Selection | None

    @classmethod
    def of(cls, config: ClusterConfig) -> "Job":
        """Builds data set and method, which checks their values, and looks at the files.

        Raises:
            InputError: a wrong value, or files that are not there.
        """
        method = config.method.build()
        if config.learns:
            _check_learner(config, method)
        if hasattr(method, "network_objective"):
            from clustering.deep.softmax_clustering import check_objective

            views = config.network.options["views"] if config.learns else 0
            check_objective(getattr(method, "objective", ""), known=config.asked_labels() is not None, views=views)
        source = cast("Source", config.dataset.build())
        return cls(config, source.source(), source, _selection(config))

    @classmethod
    def on(cls, config: ClusterConfig, data: str) -> "Job":
        """The job on points of that identity, which need not be here."""
        return cls(config, data, cast("Source", config.dataset.build()), _selection(config))

    @property
    def identity(self) -> str:
        return identity(
            STAGE, config=self.config.result_keys(), data=self.data, selection=self._chosen_from, code=self._code
        )

    @property
    def _chosen_from(self) -> list[Any] | None:
        if self.selection is None:
            return None
        return [self.selection.trials, self.selection.share, *map(dict, self.selection.settings)]

    @property
    def _code(self) -> str:
        """Fingerprint of what computes the labels, of the points, and what is known of them."""
        kinds = (self.config.method.kind, type(self.source))
        modules = {kind.__module__ for kind in kinds}
        if self.config.learns:
            modules |= {"clustering.deep.self_labelling", "runs.stages.clustering.network_inputs"}
        if self.config.asked_labels() is not None:
            modules.add("clustering.evaluation.known_labels")
        if self.config.links is not None:
            modules.add("clustering.evaluation.known_links")
        return code_fingerprint("clustering.evaluation.protocol", "clustering.sweeps", *sorted(modules))


def _selection(config: ClusterConfig) -> Selection | None:
    """What labels choose from; nothing where labels or pairs are given to the method, or a network is trained."""
    informed = config.asked_labels() is not None or config.links is not None or config.coarse is not None
    return None if config.learns or informed else selection_of(config)


def _check_learner(config: ClusterConfig, method: Any) -> None:
    """That the method can train a network.

    Raises:
        InputError: it cannot; says how its features are clustered.
    """
    if not hasattr(method, "network_objective"):
        raise InputError(
            f"method={config.method.name} trains no network; methods that do: entropy, migd, imsat, iic, sela, "
            "miadm_batch, labelled, labelled_reverse, labelled_absolute. Leave network out, or let one of these learn "
            "features first, and cluster them with dataset=features path=FILE, which their run names"
        )
    for given, name, what in ((config.links, "links", "known pairs"), (config.coarse, "coarse", "coarse labels")):
        if given is not None:
            raise InputError(f"{name}=: with network= there are no {what}; leave {name} out, or take method=xsdc")
    if getattr(method, "pseudo_labels", "batch") == "epoch":
        raise InputError(
            f"method={config.method.name}: a network gets pseudo-labels for each batch, not once an epoch; set "
            "pseudo_labels=batch, or choose method=miadm_batch"
        )
