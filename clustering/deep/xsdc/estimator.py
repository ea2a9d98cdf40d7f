"""XSDC: discriminative clustering that learns its features, with any share of the labels known."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clustering.deep.settings import Advance, Log, Observe
from clustering.deep.xsdc.constraints import Constraints, broken_links, check_room, constraints
from clustering.deep.xsdc.copies import Copies
from clustering.deep.xsdc.discriminative import (
    Ridge,
    best_penalty,
    feature_scale,
    normalised_features,
    ridge,
    ridge_objective,
)
from clustering.deep.xsdc.final_classifier import Kind, final_classifier, rounded_labels
from clustering.deep.xsdc.phases import Phase, kept, train
from clustering.deep.xsdc.representations import network_of, side_of
from clustering.deep.xsdc.reversal import Assignment, Reversal
from clustering.deep.xsdc.rounding import obeying_labels
from clustering.deep.xsdc.size_bounds import size_bounds
from clustering.estimator_input import Device, checked_rows, known_clusters, warn_if_labels_are_y
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast, Within, validate_signature
from clustering.foundation.streams import stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.metrics import cluster_sizes
from clustering.numbering import numbered
from clustering.optimiser.simplex import project

_UNLABELLED_PENALTY = 0.1
"""Where no labels choose one. The smaller it is, the more features follow whatever M they began with."""


class XSDC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """X-supervised discriminative clustering (Jones, Roulet and Harchaoui): un-, semi- or fully supervised.

    Learns features in which a ridge regression tells the clusters apart. In turns, the relaxed equivalence matrix of a
    batch is balanced, subject to the labels and links that are known and to bounds on the size of a cluster, and the
    network takes a step down the regression's loss, solved for in closed form. The result is a ridge classifier on the
    features. Where every cluster has labels, that matrix is of the labels which a ridge regression on the known ones
    gives the others, and clusters may be of any size. **Else clusters of equal size are assumed unless `min_share` and
    `max_share`, or more labels or links of one cluster than that, say otherwise**: without any bound all points in one
    cluster are best.

    A batch of n points takes a handful of n x n matrices in double precision, 40 MB for 1024 + 1024.

    Parameters
    ----------
    n_clusters : number of clusters K.
    representation : what makes features of a centred row: "linear", directions that are learned; "kernel", Nystrom
        features of the Gaussian kernel with learned landmarks; "perceptron"; "lenet5", the paper's network for MNIST,
        of rows that are square grey pictures; "ckn_gm", that for CIFAR-10, of square colour pictures, channel by
        channel; or a `clustering.deep.xsdc.vector_networks.Network` of your own, which is copied.
    n_features : D of the features.
    penalty : ridge penalty. None: with labels of two clusters or more the one of 2^-40 .. 1 that does best at labelled
        points that are left out (2^-14 where a cluster has a single label), else 0.1. Without labels much depends on
        it: try several.
    min_share, max_share : least and greatest size of a cluster, as shares of a batch; 1 / K where None.
    supervised_steps : steps on labelled points alone, first, where every cluster has some. steps : on batches of all.
    step_size : of the network's own rule: along the sphere (nearly an angle in radians, of "linear", "lenet5" and
        "ckn_gm"), times the gradient ("kernel"), or of Adam ("perceptron"). None: its `usual_step`, of these 0.1, 2^-6,
        0.5, 1 and 0.001.
    supervised_step_size : of steps on labelled points alone; None: as step_size.
    decay : weight of the squared parameters, except along the sphere.
    batch_size : half of the points of a batch, at most: that many labelled points, class by class in proportion, linked
        ones with their partners in what these leave (half of it at least), and others.
    copies : of every point of a batch of which nothing is known, itself and changed ones, known to be of one cluster,
        batch_size of all together; rows must be square grey pictures, which are turned, widened, moved and partly
        erased. 1: itself alone.
    rounds : of balancing. assignment : "auto", "pseudo_labels" where every cluster has labels and no bounds are given,
        else "balancing"; steps with pseudo-labels after supervised ones are taken back where they lower the loss of a
        batch by less than 3 %. "balancing", as in the paper; "pseudo_labels" of a ridge regression on the known ones,
        which obey links, of clusters that all have labels; or, to compare, "eigenvectors" of the relaxation without
        signs. Only balancing knows bounds.
    schedule : "falling", the size of steps on all points falls to 0 along half a cosine; "constant", as in the paper.
    classifier : what is fitted at the end where every cluster has labels: "nearest", labelled points and all others
        with the label of the nearest labelled point, as in the paper; "labelled", labelled points alone; "auto", the
        one that does best at labelled points that are left out, with a penalty of 2^-40 .. 1 of its own ("nearest"
        where a cluster has a single label).
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed of the network and of the batches.

    Attributes
    ----------
    labels_ : (N,) int, those that were known as they were; linked points have one, and points known to be apart two,
        as far as K clusters allow.
    cluster_sizes_ : (K,) points of each. size_bounds_ : (2,) the shares that held for M in
        training; labels_ are those of the classifier, and may be outside.
    network_ : the trained network. classifier_ : `clustering.deep.xsdc.discriminative.Ridge` on its normalised
        features.
    penalty_ : of that. objective_ : its loss with labels_ as targets, plus its penalty. criterion_ : likewise at
        `penalty`, 0.1 where None, to choose among fits of several seeds, whose penalty_ may differ.
    trace_ : (n_iter_,) the loss F of every batch: of supervised steps that of a regression on labels; of steps on all
        points that of M, which may be below 0 where M is balanced, for it is no Y Y^T then. residuals_ : (n_iter_,) by
        how many points sizes were outside their bounds after balancing: much above one where links leave no room.
    steps_kept_ : whether features are those after all steps, or steps on all points were taken back. n_iter_ : steps.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    def __init__(
        self,
        n_clusters: Annotated[int, AtLeast(1)] = 8,
        *,
        representation: Any = "linear",
        n_features: Annotated[int, AtLeast(2)] = 32,
        penalty: Annotated[float, Above(0)] | None = None,
        min_share: Annotated[float, Within(0, 1)] | None = None,
        max_share: Annotated[float, Within(0, 1)] | None = None,
        supervised_steps: Annotated[int, AtLeast(0)] = 100,
        steps: Annotated[int, AtLeast(0)] = 60,
        step_size: Annotated[float, Above(0)] | None = None,
        supervised_step_size: Annotated[float, Above(0)] | None = None,
        decay: Annotated[float, AtLeast(0)] = 0.0,
        batch_size: Annotated[int, AtLeast(2)] = 1024,
        copies: Annotated[int, AtLeast(1)] = 1,
        rounds: Annotated[int, AtLeast(1)] = 10,
        assignment: Literal["auto"] | Assignment = "auto",
        schedule: Literal["falling", "constant"] = "falling",
        classifier: Literal["auto"] | Kind = "auto",
        device: Device = "cpu",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.representation = representation
        self.n_features = n_features
        self.penalty = penalty
        self.min_share = min_share
        self.max_share = max_share
        self.supervised_steps = supervised_steps
        self.steps = steps
        self.step_size = step_size
        self.supervised_step_size = supervised_step_size
        self.decay = decay
        self.batch_size = batch_size
        self.copies = copies
        self.rounds = rounds
        self.assignment = assignment
        self.schedule = schedule
        self.classifier = classifier
        self.device = device
        self.random_state = random_state

    @shared_if_large
    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        partial_labels: ArrayLike | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
        coarse_labels: ArrayLike | None = None,
        folder: str | Path | None = None,
        log: Log | None = None,
        observe: Observe | None = None,
        advance: Advance | None = None,
    ) -> "XSDC":
        """Learn features and clusters of the rows of X, (N, D) finite; `y` is ignored, with a warning if
        `partial_labels` is None.

        Args:
            partial_labels: (N,) 0..K-1, -1 where unknown.
            must_link: (p, 2) pairs of rows of one cluster.
            cannot_link: (q, 2) pairs of rows of two clusters.
            coarse_labels: (N,) integers, -1 where unknown; rows of different ones are of two clusters, of one may be.
                Whether a row is in some set is 0 or 1.
            folder: gets the state of the training, from which another fit of the same goes on.
            log, observe, advance: take how it goes, live; see `clustering.deep.xsdc.phases.train`.

        Raises:
            InputError: a parameter or X that cannot be; labels and links that contradict each other; sizes that they,
                or the bounds, leave no room for; training that leaves the range of numbers, with the step; a folder
                with the state of another training.

        Warns:
            UserWarning: more points are known to be in one cluster than equal sizes have, and no bounds are given; only
                some clusters have labels, so that their sizes are balanced.
            ConvergenceWarning: a cluster has no point in the end, or points that are known to be apart are in one.
        """
        warn_if_labels_are_y(y, partial_labels)
        validate_signature(self)
        rows = checked_rows(self, X, reset=True, device=self.device)
        points, K = len(rows), self.n_clusters
        if points < K:
            raise InputError(f"n_samples={points} should be >= n_clusters={K}")
        clamp = known_clusters(partial_labels, rows, K)
        given = None if clamp is None else torch.where(clamp[0], clamp[1], -1).cpu().numpy()
        known = constraints(
            points, labels=given, must_link=must_link, cannot_link=cannot_link, coarse_labels=coarse_labels
        )
        check_room(known, K)
        assignment = self._assignment(known)
        bounds = (0.0, 1.0)
        if assignment == "balancing":
            bounds = size_bounds(known, K, self.min_share, self.max_share)
        watch = Stopwatch()
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        copies = self._copies(rows.shape[1], seed)
        # Of pictures it is one grey value, as in the paper: where the border is black it stays so.
        whole = self.representation in ("lenet5", "ckn_gm") or copies is not None
        self._centre = rows.mean() if whole else rows.mean(dim=0)
        spread = (rows - self._centre).square().mean().sqrt()
        self._spread = torch.where(spread > 0, spread, 1.0)
        inputs = self._inputs(rows)
        self.network_ = network_of(self.representation, rows.shape[1], self.n_features).to(rows)
        self.network_.begin(inputs, stream(seed, "network"))
        training = Reversal(self.network_, inputs, known, K, *bounds, self.rounds, assignment, copies)
        training.check_sizes(self.batch_size)
        seeding_seconds = watch.lap()
        phases = self._phases(training)
        done = train(
            training,
            phases,
            penalty=(lambda: self._penalty(training)) if self.penalty is None else float(self.penalty),
            decay=self.decay,
            batch_size=self.batch_size,
            seed=seed,
            folder=None if folder is None else Path(folder),
            log=log,
            observe=observe,
            advance=advance,
        )
        self.trace_, self.residuals_ = done.trace, done.residuals
        self.n_iter_, self.size_bounds_ = len(done.trace), np.array(bounds)
        self.steps_kept_ = True
        if self.assignment == "auto" and assignment == "pseudo_labels" and sum(one.steps > 0 for one in phases) == 2:
            judged = next(training.batches(self.batch_size, stream(seed, "kept"))).points
            self.steps_kept_ = kept(training, done.before, judged, lambda: self._penalty(training))
        self._classify(training, stream(seed, "rounding"))
        self.seconds_ = Seconds(0.0, seeding_seconds, watch.lap())
        broken = broken_links(known, self.labels_)
        if broken:
            warnings.warn(
                f"XSDC: {broken} pairs of points, or of linked sets of them, that are known to be apart are in one "
                f"cluster: more of them are apart from each other than {K} clusters allow, or labels were not found "
                "that do",
                ConvergenceWarning,
                stacklevel=3,
            )
        empty = int((self.cluster_sizes_ == 0).sum())
        if empty:
            warnings.warn(
                f"XSDC: {empty} of {K} clusters have no point (sizes {self.cluster_sizes_.tolist()}); try another "
                "penalty, more labels, or bounds nearer to the sizes that you expect",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) the cluster of each of the rows of X (n, D), by the ridge classifier."""
        return np.asarray(self._scores(X).argmax(1).cpu().numpy())

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) the distributions nearest to the scores of the classifier, which sum to one but may be negative."""
        scores = self._scores(X)
        return np.asarray(project(scores.T[None])[0].T.cpu().numpy())

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, n_features) learned features of the rows of X (n, D), as long as one on average where it was fitted."""
        return np.asarray(self._features(X).cpu().numpy())

    @property
    def equal_sizes_unless(self) -> str:
        """What to give where clusters are not of the same size, as they are taken to be; empty if they are not."""
        if self.assignment in ("pseudo_labels", "eigenvectors") or (self.min_share, self.max_share) != (None, None):
            return ""
        labels = "labels of every cluster, or " if self.assignment == "auto" else ""
        return f"give {labels}min_share and max_share, the least and greatest share of the points"

    @property
    def sizes_follow_labels(self) -> bool:
        """Whether clusters may be of any size where each of them has labels."""
        return self.assignment == "auto" and (self.min_share, self.max_share) == (None, None)

    def planned_steps(self, partial_labels: ArrayLike | None = None) -> int:
        """How many steps a fit would take, of points with these labels (N,), of which -1 are unknown."""
        if partial_labels is None:
            return self.steps
        labels = np.asarray(partial_labels)
        every = len(np.unique(labels[labels >= 0])) == self.n_clusters
        return (self.supervised_steps if every else 0) + (self.steps if (labels < 0).any() else 0)

    def weights(self) -> dict[str, Tensor]:
        """All that was learned, by name, for `with_weights`: network.*; of the classifier classifier.weights (D, K) and
        classifier.intercept (K,); centre, () or (columns,), and spread (), by which rows are shifted and divided first;
        scale (), the mean length by which features are; columns () of a row."""
        check_is_fitted(self)
        network = {f"network.{name}": each for name, each in self.network_.state_dict().items()}
        parts = {"centre": self._centre, "spread": self._spread, "scale": self._scale}
        parts["columns"] = torch.tensor(self.n_features_in_)
        return network | {f"classifier.{name}": each for name, each in self.classifier_._asdict().items()} | parts

    def with_weights(self, weights: Mapping[str, Tensor]) -> "XSDC":
        """Take over what another fit learned, by its `weights`, to predict and transform; of the rows that it was
        fitted to nothing is known (`labels_`, `trace_`, ...).

        Raises:
            InputError: weights of another number of clusters, another representation or n_features.
        """
        validate_signature(self)
        try:
            columns, centre = int(weights["columns"]), weights["centre"]
            network = network_of(self.representation, columns, self.n_features).to(centre.dtype)
            prefix = "network."
            network.load_state_dict({name[len(prefix) :]: weights[name] for name in weights if name.startswith(prefix)})
            classifier = Ridge(weights["classifier.weights"], weights["classifier.intercept"])
            spread, scale = weights["spread"], weights["scale"]
        except (KeyError, RuntimeError) as error:
            raise InputError(
                f"XSDC: these are not the weights of representation={self.representation!r} with n_features="
                f"{self.n_features} ({str(error).splitlines()[-1].strip()})"
            ) from error
        if len(classifier.intercept) != self.n_clusters:
            raise InputError(
                f"XSDC: these weights tell {len(classifier.intercept)} clusters apart, and n_clusters={self.n_clusters}"
            )
        self.network_, self.classifier_ = network, classifier
        self._centre, self._spread, self._scale = centre, spread, scale
        self.n_features_in_, self._n_features_out = columns, len(classifier.weights)
        return self

    def _assignment(self, known: Constraints) -> Assignment:
        """How M is found, with what is known.

        Raises:
            InputError: bounds that have no part in it, or labels that are wanting.
        """
        bounds = {"min_share": self.min_share, "max_share": self.max_share}
        given = {name: share for name, share in bounds.items() if share is not None}
        labelled = self._all_labelled(known)
        if self.assignment == "auto":
            return "pseudo_labels" if labelled and not given else "balancing"
        if self.assignment != "balancing":
            for name, share in given.items():
                raise InputError(
                    f"{name}={share:g}: assignment={self.assignment} knows no bounds; leave it out, or take balancing"
                )
        if self.assignment == "pseudo_labels" and not labelled:
            raise InputError(
                "assignment=pseudo_labels needs labels of every cluster; give some, or take auto or balancing"
            )
        return self.assignment

    def _copies(self, pixels: int, seed: int) -> Copies | None:
        if self.copies == 1:
            return None
        if self.copies > self.batch_size:
            raise InputError(f"XSDC: copies={self.copies} of a point do not fit into batch_size={self.batch_size}")
        return Copies(self.copies, side_of(pixels, "copies are made of", "set copies to 1"), seed)

    def _phases(self, training: Reversal) -> list[Phase]:
        size = float(self.network_.usual_step) if self.step_size is None else self.step_size
        first = size if self.supervised_step_size is None else self.supervised_step_size
        found = []
        # Features that tell some clusters apart would forget the others.
        if self._all_labelled(training.known):
            found.append(Phase("supervised", self.supervised_steps, first))
        if len(training.others):
            found.append(Phase("assigned", self.steps, size, self.schedule == "falling"))
        return found

    def _penalty(self, training: Reversal) -> float:
        """The one that was given; or the best at labelled points left out, the greatest of those as good."""
        if self.penalty is not None:
            return float(self.penalty)
        points = training.labelled
        if len(np.unique(training.known.labels[points])) < min(2, self.n_clusters) or len(points) < 2:
            return _UNLABELLED_PENALTY
        features = training.features(training.inputs[torch.from_numpy(points).to(training.inputs.device)])
        return best_penalty(features, training.targets(points))

    def _classify(self, training: Reversal, generator: np.random.Generator) -> None:
        """Labels for all points, and the classifier that gives them."""
        known, told, K = training.known, training.labelled, self.n_clusters
        raw = training.raw_features(training.inputs)
        self._n_features_out = raw.shape[1]
        self._scale = feature_scale(raw[told] if len(told) else raw)
        features = normalised_features(raw, self._scale)
        self.penalty_ = self._penalty(training)
        if self._all_labelled(known):
            fitted = final_classifier(features, known.labels, K, self.classifier, self.penalty_)
            self.penalty_, self.classifier_ = fitted.penalty, fitted.classifier
        else:
            labels = torch.from_numpy(rounded_labels(training, features, self.penalty_, generator)).to(features.device)
            self.classifier_ = ridge(features, torch.nn.functional.one_hot(labels, K), self.penalty_)
        found = obeying_labels(self.classifier_.scores(features).cpu().numpy(), known)
        self.labels_, order = numbered(self, found, known.labels)
        self.classifier_ = Ridge(self.classifier_.weights[:, order], self.classifier_.intercept[order])
        self.cluster_sizes_ = cluster_sizes(self.labels_, K)
        final = torch.nn.functional.one_hot(torch.from_numpy(self.labels_).to(features.device), K)
        self.objective_ = float(ridge_objective(features, final, self.penalty_))
        self.criterion_ = float(ridge_objective(features, final, self.penalty or _UNLABELLED_PENALTY))

    def _all_labelled(self, known: Constraints) -> bool:
        """Whether every cluster has a labelled point."""
        return len(np.unique(known.labels[known.labels >= 0])) == self.n_clusters

    def _inputs(self, rows: Tensor) -> Tensor:
        return (rows - self._centre.to(rows)) / self._spread.to(rows)

    def _features(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False, device=self.device)
        inputs = self._inputs(rows).to(self._centre.dtype)
        training = Reversal(self.network_.to(rows.device), inputs, constraints(0), self.n_clusters, 0, 1)
        return training.features(inputs, self._scale.to(rows.device))

    def _scores(self, X: ArrayLike) -> Tensor:
        features = self._features(X)
        return type(self.classifier_)(*(part.to(features.device) for part in self.classifier_)).scores(features)
