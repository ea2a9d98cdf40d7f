"""Clustering with a network that learns its features, as one run in the record with live curves."""

import dataclasses
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clustering.deep import losses
from clustering.deep.networks import Classifier, features, predictions
from clustering.deep.prior import checked_prior
from clustering.deep.training import Augment, Prepare, train
from clustering.evaluation.protocol import random_state
from clustering.files.tensors import write_tensors
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress
from fsl.machine import resolve_device
from runs.config.cluster import ClusterConfig
from runs.config.network import DeepNetwork, Shaken
from runs.stages.clustering.learning import NETWORK, LearningRun, LearningStage, watched_scores
from runs.stages.clustering.results import Trials
from runs.stages.clustering.stage import BALANCED, Problem
from runs.stages.clustering.trials import judged, told
from runs.stages.points import Points
from runs.stages.stage import Workspace

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset
    from clustering.evaluation.known_labels import KnownLabels

FORMAT = "transduce network 1"
LOST = "clusters have no points"  # part of the training's warning, which is replaced by a message after the whole run
UNSURE = 0.5  # mean confidence, rescaled from chance (0) to certainty (1); below it, the result is doubted
ASTRAY = 0.25  # share of points that would have to change clusters to match the prior; above it, the result is doubted
ENOUGH = 300  # steps that suffice for most data sets of small images
OF_ROWS = ("mlp", "waves")  # networks whose input is rows of numbers; the others take pictures
LARGEST = 256  # largest side, in pixels, that is tried when searching for one that fits


def check_learner(config: ClusterConfig, method: Any) -> None:
    """Check that the method can train a network.

    Raises:
        InputError: it cannot; the message says how to cluster its features.
    """
    if not hasattr(method, "network_objective"):
        raise InputError(
            f"method={config.method.name} trains no network; methods that do: entropy, migd, imsat, iic, sela, "
            "miadm, miadm_batch, labelled, labelled_reverse, labelled_absolute. Leave network out, or let one of these "
            "learn features first, and cluster them with dataset=features path=FILE, which their run names"
        )
    for given, name, what in ((config.links, "links", "known pairs"), (config.coarse, "coarse", "coarse labels")):
        if given is not None:
            raise InputError(f"{name}=: with network= there are no {what}; leave {name} out, or take method=xsdc")


@dataclass(frozen=True, kw_only=True)
class NetworkStage(LearningStage):
    """One training of a network by a clustering method."""

    remedy = "another seed, fewer clusters, known labels or another prior"

    def check(self, prepared: Points) -> None:
        super().check(prepared)
        resolve_device(self.config.device)
        network: DeepNetwork = self.config.network.build()
        check_fits(network, inputs_of(network, prepared.data))

    def learn(
        self, learning: LearningRun, problem: Problem, prepared: Points, work: Workspace
    ) -> tuple[Trials, Tensor]:
        from sklearn.exceptions import ConvergenceWarning

        (clusters, known, _), progress, network = problem, work.progress, self.config.network.build()
        inputs, device = inputs_of(network, prepared.data), resolve_device(self.config.device)
        method = told(self.config)
        objective, training = method.network_objective(), network.training(method.margin_weight)
        if hasattr(objective, "agreement"):
            objective = dataclasses.replace(objective, agreement=network.agreement)
        batch = min(training.batch_size, len(inputs.points))
        total = training.epochs * (len(inputs.points) // batch) * batch
        caught = warnings.catch_warnings(record=True)
        with work.store.watched(), progress.track(f"training {self.name}", total) as advance, caught as warned:
            warnings.simplefilter("default", ConvergenceWarning)
            found = train(
                network.backbone(inputs.channels, inputs.size),
                inputs.points,
                clusters,
                objective,
                training,
                prior=getattr(method, "prior", BALANCED),
                relabel=getattr(method, "pseudo_labels", "batch"),
                seed=self.config.seed,
                partial_labels=None if known is None else known.labels,
                augment=inputs.augment,
                prepare=inputs.prepare,
                folder=learning.folder,
                device=device,
                log=learning,
                observe=watched_scores(prepared.data, known),
                advance=advance,
                say=progress.note,
            )
            header = {"format": FORMAT, "architecture": network.architecture, "channels": str(inputs.channels)}
            header |= {"size": str(inputs.size), "clusters": str(clusters)}
            write_tensors(learning.folder / NETWORK, found.model.state_dict(), header)
        for text in dict.fromkeys(str(one.message) for one in warned or () if LOST not in str(one.message)):
            progress.note(f"{self.name}: {text}")
        if found.resumed_at:
            progress.note(f"{self.name}: went on after epoch {found.resumed_at}")
        log_p = predictions(found.model, inputs.points, inputs.prepare, device)
        trials = self._trials(found.model, log_p, prepared.data, known, learning.seconds)
        _say_doubts(self, log_p, known, progress)
        return trials, features(found.model, inputs.points, inputs.prepare, device)

    def _trials(
        self, model: Classifier, log_p: Tensor, data: "Dataset", known: "KnownLabels | None", seconds: float
    ) -> Trials:
        """Return the single trial; its objective is that of equation 14 whatever the training minimised."""
        labels = log_p.argmax(1).numpy() if known is None else np.where(known.known, known.labels, log_p.argmax(1))
        method = self.config.method.build()
        prior = checked_prior(getattr(method, "prior", BALANCED), log_p.shape[1]).to(log_p)
        spread = losses.tolerant_fairness(log_p.exp().mean(0), prior)
        norm = method.margin_weight * float(losses.margin_norm(model.head.weight.detach()))
        value = np.array([float(losses.mean_entropy(log_p) + spread) + norm])
        zero = np.zeros(1, dtype=np.int64)
        return Trials(
            settings=({},),
            setting=zero,
            start=zero,
            seeds=np.array([random_state(self.config.seed, 0)]),
            given=np.ones(1, dtype=bool),
            tried=np.zeros(1, dtype=bool),
            labels=labels[None].astype(np.min_scalar_type(log_p.shape[1])),
            confidence=log_p.amax(1).exp().numpy(),
            objective=value,
            criterion=value,
            clusters=np.array([len(np.unique(labels))]),
            iterations=np.array([self.config.network.options["epochs"]]),
            seconds=np.array([[0.0, 0.0, seconds]]),
            **judged(labels[None], data, known),
        )


def _say_doubts(stage: LearningStage, log_p: Tensor, known: "KnownLabels | None", progress: Progress) -> None:
    """Report a training that ended with low confidence, or with sizes far from the prior, and suggest a remedy."""
    (points, clusters), method, network = log_p.shape, stage.config.method.build(), stage.config.network.build()
    if clusters == 1:
        return
    open_points = slice(None) if known is None else torch.from_numpy(~known.known)
    sure, chance = float(log_p[open_points].amax(1).exp().mean()), 1 / clusters
    doubts = []
    if (sure - chance) / (1 - chance) < UNSURE:
        doubts.append(f"it is far from sure of its clusters (confidence {sure:.2f} on average; {chance:.2f} is chance)")
    prior = checked_prior(getattr(method, "prior", BALANCED), clusters)
    shares = torch.bincount(log_p.argmax(1), minlength=clusters).cpu() / points
    if method.network_objective().takes_prior and float((shares - prior).abs().sum()) / 2 > ASTRAY:
        most = int((shares - prior).argmax())
        doubts.append(f"a cluster has {shares[most]:.0%} of the points where {prior[most]:.0%} are expected")
    each = max(1, points // min(network.batch_size, points))
    steps = network.epochs * each
    remedy = "more epochs, known labels, other sizes (prior=) or another network may mend it"
    if steps < ENOUGH:
        remedy = f"it took {steps} step{'s' if steps > 1 else ''}, and most need some hundred: give more, as "
        remedy += f"epochs={-(-ENOUGH // each)}"
    if doubts:
        progress.note(f"{stage.name}: do not rely on this result: {' and '.join(doubts)}; {remedy}")


class Inputs(NamedTuple):
    """The inputs of a network.

    Attributes:
        points: (N, C, H, W) uint8 pictures, or (N, D) float32 rows.
        channels: C, or D.
        size: H of images after the crop; 0 for rows.
        augment: function that makes random views.
        prepare: function that scales and crops.
    """

    points: Tensor
    channels: int
    size: int
    augment: Augment
    prepare: Prepare


def inputs_of(network: DeepNetwork, data: "Dataset") -> Inputs:
    """Return the points of a data set as inputs of a network.

    Raises:
        InputError: rows for a network on images, or images for a network on rows.
    """
    values = data.values
    if network.architecture in OF_ROWS:
        rows = torch.from_numpy(np.asarray(values.todense() if hasattr(values, "todense") else values, np.float32))
        mean, deviation = float(rows.double().mean()), float(rows.double().std()) or 1.0
        augment = Shaken(network.noise * deviation)
        return Inputs(rows, rows.shape[1], 0, augment, lambda part: (part.float() - mean) / deviation)
    if data.picture is None:
        raise InputError(
            f"network={network.architecture} is for pictures, and these points are rows of {values.shape[1]} numbers; "
            "choose network=mlp or network=waves, or leave network out"
        )
    height, width = data.picture
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) * (255 / ((high - low) or 1))
    points = torch.from_numpy(scaled.round().astype(np.uint8)).view(-1, data.channels, height, width)
    size = min(height, width) if network.inner is None else network.inner
    if size > min(height, width):
        raise InputError(f"network.inner={size}: the pictures are of {height} x {width} pixels; set inner to less")
    top, left = (height - size) // 2, (width - size) // 2
    window = (..., slice(top, top + size), slice(left, left + size))
    seen = points[window].double()
    mean, deviation = float(seen.mean()), float(seen.std()) or 1.0

    def prepare(part: Tensor) -> Tensor:
        return ((part[window].float() - mean) / deviation).contiguous(memory_format=torch.channels_last)

    return Inputs(points, data.channels, size, network.changes, prepare)


def check_fits(network: DeepNetwork, inputs: Inputs) -> None:
    """Check that the network accepts the points.

    Raises:
        InputError: it does not; the message gives the smallest side that fits.
    """

    def fits(size: int) -> bool:
        example = torch.zeros(2, inputs.channels, size, size) if size else torch.zeros(2, inputs.channels)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            backbone = network.backbone(inputs.channels, size)().eval()
            try:
                return bool(backbone(example).numel())
            except RuntimeError:  # the feature maps of some layer are empty
                if size:
                    return False
                raise

    if not fits(inputs.size):
        needed = next(filter(fits, range(inputs.size + 1, LARGEST + 1)), None)
        remedy = f"it needs {needed} x {needed} or more: set inner or size so" if needed else "choose another network"
        taken = f"network={network.architecture} does not take pictures of {inputs.size} x {inputs.size} pixels"
        raise InputError(f"{taken}; {remedy}")
