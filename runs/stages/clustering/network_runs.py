"""Clustering with a network that learns its features, as one run in the record with live curves."""

import dataclasses
import warnings
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clustering.deep import losses
from clustering.deep.networks import features, predictions
from clustering.deep.prior import checked_prior
from clustering.deep.training import Augment, Prepare, train
from clustering.evaluation.protocol import schedule
from clustering.files.tensors import write_tensors
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress
from fsl.machine import resolve_device
from runs.config.cluster import ClusterConfig
from runs.stages.clustering.deep_network import DeepNetwork, Shaken
from runs.stages.clustering.fitting import BALANCED, Problem
from runs.stages.clustering.learning import NETWORK, Learned, LearningRun, LearningStage, watched_scores
from runs.stages.clustering.trials import Known, facts_of, told, trials_of
from runs.stages.points import Points
from runs.stages.stage import Workspace

if TYPE_CHECKING:
    from clustering.datasets.dataset import Dataset

FORMAT = "transduce network 1"
LOST = "clusters have no points"  # part of the training's warning, which is replaced by a message after the whole run
UNSURE = 0.5  # mean confidence, rescaled from chance (0) to certainty (1); below it, the result is doubted
ASTRAY = 0.25  # share of points that would have to change clusters to match the prior; above it, the result is doubted
ENOUGH = 300  # steps that suffice for most data sets of small images
OF_ROWS = ("mlp", "waves")  # networks whose input is rows of numbers; the others take pictures
LARGEST = 256  # largest side, in pixels, that is tried when searching for one that fits


def check_learner(config: ClusterConfig, method: Any) -> None:
    """Raise InputError unless the method can train a network with what is known; the message says what else to do."""
    if not hasattr(method, "network_objective"):
        raise InputError(
            f"method={config.method.name} trains no network; methods that do: entropy, migd, imsat, iic, sela, "
            "miadm, miadm_batch, labelled, labelled_reverse, labelled_absolute. Leave network out, or let one of these "
            "learn features first, and cluster them with dataset=features path=FILE, which their run names"
        )
    for name in ("links", "coarse"):
        if getattr(config, name) is not None:
            raise InputError(f"{name}= is not possible with network=; leave {name} out, or take method=xsdc")


@dataclass(frozen=True, kw_only=True)
class NetworkStage(LearningStage):
    """One training of a network by a clustering method."""

    remedy = "another seed, fewer clusters, known labels or another prior"

    def check(self, prepared: Points) -> None:
        super().check(prepared)
        resolve_device(self.config.device)
        network: DeepNetwork = self.config.network.build()
        check_fits(network, inputs_of(network, prepared.data))

    def learn(self, learning: LearningRun, problem: Problem, prepared: Points, work: Workspace) -> Learned:
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
        with progress.track(f"training {self.name}", total) as advance, caught as warned:
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
                partial_labels=known.partial,
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
        labels = log_p.argmax(1).numpy()
        if known.labels is not None:
            labels = np.where(known.labels.known, known.labels.labels, labels)
        # The objective is that of equation 14 whatever the training minimised.
        prior = checked_prior(getattr(method, "prior", BALANCED), clusters).to(log_p)
        value = float(losses.mean_entropy(log_p) + losses.tolerant_fairness(log_p.exp().mean(0), prior))
        value += method.margin_weight * float(losses.margin_norm(found.model.head.weight.detach()))
        model = SimpleNamespace(labels_=labels, objective_=value, assignments_=log_p.exp(), n_iter_=network.epochs)
        model.seconds_ = (0.0, 0.0, learning.seconds)
        trials = trials_of(self.config, [facts_of(model)], schedule(1, None), [{}], prepared.data, known)
        _say_doubts(self, log_p, known, progress)
        return trials, features(found.model, inputs.points, inputs.prepare, device)


def _say_doubts(stage: LearningStage, log_p: Tensor, known: Known, progress: Progress) -> None:
    """Report a training that ended with low confidence, or with sizes far from the prior, and suggest a remedy."""
    (points, clusters), method, network = log_p.shape, stage.config.method.build(), stage.config.network.build()
    if clusters == 1:
        return
    open_points = slice(None) if known.told is None else torch.from_numpy(~known.told)
    sure, chance, doubts = float(log_p[open_points].amax(1).exp().mean()), 1 / clusters, []
    if (sure - chance) / (1 - chance) < UNSURE:
        doubts.append(f"it is far from sure of its clusters (confidence {sure:.2f} on average; {chance:.2f} is chance)")
    excess = torch.bincount(log_p.argmax(1), minlength=clusters).cpu() / points
    excess -= (prior := checked_prior(getattr(method, "prior", BALANCED), clusters))
    if method.network_objective().takes_prior and float(excess.abs().sum()) / 2 > ASTRAY:
        most = int(excess.argmax())
        share = excess[most] + prior[most]
        doubts.append(f"a cluster has {share:.0%} of the points where {prior[most]:.0%} are expected")
    each = max(1, points // min(network.batch_size, points))  # steps of an epoch
    remedy = "more epochs, known labels, other sizes (prior=) or another network may mend it"
    if (steps := network.epochs * each) < ENOUGH:
        remedy = f"it took {steps} steps, and most need some hundred: give more, as epochs={-(-ENOUGH // each)}"
    if doubts:
        progress.note(f"{stage.name}: do not rely on this result: {' and '.join(doubts)}; {remedy}")


class Inputs(NamedTuple):
    """The inputs of a network."""

    points: Tensor  # (N, C, H, W) uint8 pictures, or (N, D) float32 rows
    channels: int  # C, or D
    size: int  # H of images after the crop; 0 for rows
    augment: Augment  # function that makes random views
    prepare: Prepare  # function that scales and crops


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
    """Raise InputError, with the smallest side that fits, unless the network accepts the points."""

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
