"""XSDC: discriminative clustering that learns its features, with any share of the labels known."""

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clustering.constraints import Constraints, broken_links, check_room, constraints, size_bounds
from clustering.deep.xsdc.assignments import constrained_labels
from clustering.deep.xsdc.discriminative import (
    Ridge,
    feature_scale,
    final_classifier,
    normalised_features,
    ridge,
    ridge_objective,
)
from clustering.deep.xsdc.networks import network_of, side_of
from clustering.deep.xsdc.reversal import UNLABELLED_PENALTY, Assignment, Reversal, Solver, raw_features
from clustering.deep.xsdc.training import Phase, kept, rounded_labels, train
from clustering.estimator_input import Device, checked_rows, known_clusters, warn_if_labels_are_y
from clustering.foundation.cores import shared_if_large
from clustering.foundation.errors import InputError, unknown
from clustering.foundation.parameters import Above, AtLeast, Within, validate_signature
from clustering.foundation.progress import Advance, Log, Observe
from clustering.foundation.streams import seed_of, stream
from clustering.foundation.timing import Seconds, Stopwatch
from clustering.numbering import numbered
from clustering.optimiser.simplex import project
from clustering.starts import warn_of_empty


@dataclass(eq=False, repr=False)
class XSDC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """X-supervised discriminative clustering (Jones, Roulet and Harchaoui): unsupervised, semi-supervised or
    supervised.

    Learns features in which a ridge regression separates the clusters. Each step balances the relaxed equivalence
    matrix M of a batch, subject to known labels and links and to bounds on the cluster sizes, and then takes a gradient
    step of the network on the loss of the regression, which is solved in closed form. The result is a ridge classifier
    on the features. If every cluster has labels, M is instead built from labels that a ridge regression on the labelled
    points predicts for the others, and clusters may have any size. **Otherwise clusters are assumed to have equal
    sizes, unless `min_share` and `max_share` say otherwise, or the labels or links of one cluster already exceed that
    size**: without bounds, a single cluster would be optimal.

    A batch of n points needs a few n x n matrices in double precision, 40 MB for 1024 + 1024.

    Parameters
    ----------
    n_clusters : number of clusters K.
    representation : how features are computed from a centred row. "linear": learned directions. "kernel": Nystrom
        features of the Gaussian kernel with learned landmarks. "perceptron": a small multilayer perceptron. "lenet5":
        the paper's network for MNIST, for rows that are square grey images. "ckn_gm": the paper's network for CIFAR-10,
        for square colour images, channel by channel. Or an instance of `clustering.deep.xsdc.networks.Network`,
        which is copied.
    n_features : number of features D.
    penalty : ridge penalty. None: if two clusters or more have labels, the value of 2^-40 .. 1 with the lowest error on
        held-out labelled points (2^-14 if a cluster has a single label), otherwise 0.1. Without labels the result
        depends strongly on it: try several.
    min_share, max_share : smallest and largest size of a cluster, as shares of a batch; None is 1 / K.
    supervised_steps : number of initial steps on labelled points only, taken if every cluster has labels.
    steps : number of steps on batches of all points.
    assignment : how M is found. "balancing" as in the paper; only this supports bounds. "pseudo_labels" by ridge
        regression on the labelled points, consistent with links; every cluster needs labels. Three more are the
        paper's comparisons, which insert known entries: "deep_clustering" by K-means on whitened features of all points
        (Caron et al. 2018), "eigenvectors" by the relaxation without sign constraints, and "eigenvectors_kmeans" by
        K-means on these eigenvectors. "auto" is "pseudo_labels" if every cluster has labels and there are no bounds,
        otherwise "balancing"; steps with pseudo-labels after supervised ones are then undone if they lower the loss of
        a batch by less than 3 %.
    solver : settings of the steps and of the last classifier, a mapping such as {"batch_size": 512, "copies": 16}. For
        its keys see `clustering.deep.xsdc.reversal.Solver`.
    device : "cpu", "cuda", or "auto", which uses CUDA if it is available.
    random_state : seed or generator of the network and of the batches.

    Attributes
    ----------
    labels_ : (N,) int, cluster of each point. Labelled points keep their label; linked points share a cluster, and
        points that must be apart do not, as far as K clusters allow.
    cluster_sizes_ : (K,) number of points in each cluster.
    size_bounds_ : (2,) bounds on the shares of M in training; labels_ come from the classifier and may violate them.
    network_ : the trained network.
    classifier_ : `clustering.deep.xsdc.discriminative.Ridge` on the normalised features.
    penalty_ : penalty of the classifier.
    objective_ : loss of the classifier with labels_ as targets, plus its penalty.
    criterion_ : the same at the parameter `penalty`, or 0.1 if None; it compares fits of several seeds, whose penalty_
        may differ.
    trace_ : (n_iter_,) loss F of each batch. In supervised steps it is that of a regression on labels; in steps on all
        points it is that of M, and may be negative with balancing, where M is not of the form Y Y^T.
    residuals_ : (n_iter_,) number of points by which sizes violated their bounds after balancing; far above one if
        links are incompatible with the bounds.
    eigengaps_ : (n_iter_,) gap between the eigenvalues K and K + 1 of the matrix A, whose product with M is the loss,
        for each batch; NaN in supervised steps.
    steps_kept_ : whether the features are those after all steps; False if the steps on all points were undone.
    n_iter_ : number of steps.
    seconds_ : time spent in the fit, see `clustering.foundation.timing.Seconds`.
    n_features_in_, feature_names_in_ : as in scikit-learn.
    """

    n_clusters: Annotated[int, AtLeast(1)] = 8
    _: KW_ONLY
    representation: Any = "linear"
    n_features: Annotated[int, AtLeast(2)] = 32
    penalty: Annotated[float, Above(0)] | None = None
    min_share: Annotated[float, Within(0, 1)] | None = None
    max_share: Annotated[float, Within(0, 1)] | None = None
    supervised_steps: Annotated[int, AtLeast(0)] = 100
    steps: Annotated[int, AtLeast(0)] = 60
    assignment: Literal["auto"] | Assignment = "auto"
    solver: Solver | Mapping[str, Any] | None = None
    device: Device = "cpu"
    random_state: Any = None

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
        """Learn features and clusters of the rows of X, (N, D) finite.

        `y` is ignored, with a warning if `partial_labels` is None.

        Args:
            partial_labels: (N,) known clusters 0..K-1, and -1 for unlabelled points.
            must_link: (p, 2) pairs of rows in the same cluster.
            cannot_link: (q, 2) pairs of rows in different clusters.
            coarse_labels: (N,) integers, -1 where unknown. Rows with different coarse labels are in different clusters;
                rows with the same one may be in different clusters, too. Membership in a set, for example, is coded as
                0 or 1.
            folder: directory for the training state, from which a later fit with the same settings resumes.
            log, observe, advance: callbacks that report progress, see `clustering.deep.xsdc.training.train`.

        Raises:
            InputError: a parameter or X is invalid; labels and links contradict each other, or are incompatible with
                the number or sizes of clusters; the training diverges to non-finite values, in which case the message
                names the step; or the folder holds the state of another training.

        Warns: UserWarning: known points of one cluster exceed the equal size, and there are no bounds; or only some
        clusters have labels, so that equal sizes are assumed. ConvergenceWarning: a cluster is empty, or points that
        must be apart share a cluster.
        """
        warn_if_labels_are_y(y, partial_labels)
        validate_signature(self)
        rows = checked_rows(self, X, reset=True, device=self.device)
        points, K = len(rows), self.n_clusters
        clamp = known_clusters(partial_labels, rows, K)
        labels = None if clamp is None else torch.where(clamp[0], clamp[1], -1).cpu().numpy()
        known = constraints(
            points, labels=labels, must_link=must_link, cannot_link=cannot_link, coarse_labels=coarse_labels
        )
        check_room(known, K)
        assignment = self._assignment(known)
        bounds = (0.0, 1.0)
        if assignment == "balancing":
            bounds = size_bounds(known, K, self.min_share, self.max_share)
        watch = Stopwatch()
        seed = seed_of(self.random_state)
        solver = self._solver(points, rows.shape[1])
        # Images are centred by a single grey value, as in the paper, which keeps a uniform border uniform.
        single_value = self.representation in ("lenet5", "ckn_gm") or solver.copies > 1
        self._centre = rows.mean() if single_value else rows.mean(dim=0)
        spread = (rows - self._centre).square().mean().sqrt()
        self._spread = torch.where(spread > 0, spread, 1.0)
        inputs = self._inputs(rows)
        self.network_ = network_of(self.representation, rows.shape[1], self.n_features).to(rows)
        self.network_.begin(inputs, stream(seed, "network"))
        training = Reversal(self.network_, inputs, known, K, bounds, assignment, self.penalty, solver, seed)
        seeding_seconds = watch.lap()
        phases, folder = self._phases(training), None if folder is None else Path(folder)
        trained = train(training, phases, folder=folder, log=log, observe=observe, advance=advance)
        self.trace_, self.residuals_, self.eigengaps_ = trained.trace, trained.residuals, trained.eigengaps
        self.n_iter_, self.size_bounds_ = len(trained.trace), np.array(bounds)
        undoable = self.assignment == "auto" and assignment == "pseudo_labels"
        batch = next(training.batches(stream(seed, "kept"))).points
        both = sum(phase.steps > 0 for phase in phases) == 2
        self.steps_kept_ = not (undoable and both) or kept(training, trained.before, batch)
        self._classify(training, stream(seed, "rounding"))
        self.seconds_ = Seconds(0.0, seeding_seconds, watch.lap())
        broken = broken_links(known, self.labels_)
        if broken:
            warnings.warn(
                f"XSDC: the labels violate {broken} of the cannot-link constraints; {K} clusters may be too few "
                "for them: raise n_clusters or remove constraints",
                ConvergenceWarning,
                stacklevel=3,
            )
        remedy = "another penalty, more labels, or bounds closer to the expected sizes"
        warn_of_empty(int((self.cluster_sizes_ == 0).sum()), K, stacklevel=3, remedy=remedy)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) cluster of each row of X (n, D), by the ridge classifier."""
        return np.asarray(self._scores(X).argmax(1).cpu().numpy())

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) projections of the classifier's scores onto the probability simplex.

        The scores of a point sum to one, but can be negative.
        """
        scores = self._scores(X)
        return np.asarray(project(scores.T[None])[0].T.cpu().numpy())

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, n_features) learned features of the rows of X (n, D), scaled to an average norm of one on the fitted
        points."""
        return np.asarray(self._features(X).cpu().numpy())

    @property
    def equal_sizes_unless(self) -> str:
        """Advice for clusters of unequal size, if the fit assumes equal sizes; otherwise empty."""
        if self.assignment not in ("auto", "balancing") or (self.min_share, self.max_share) != (None, None):
            return ""
        labels = "labels of every cluster, or " if self.assignment == "auto" else ""
        return f"give {labels}min_share and max_share, the smallest and largest cluster size as a share of the points"

    @property
    def sizes_follow_labels(self) -> bool:
        """Whether clusters may have any size if each of them has labels."""
        return self.assignment == "auto" and (self.min_share, self.max_share) == (None, None)

    def planned_steps(self, partial_labels: ArrayLike | None = None) -> int:
        """Number of steps of a fit with these labels (N,), -1 where unknown."""
        if partial_labels is None:
            return self.steps
        labels = np.asarray(partial_labels)
        supervised = len(np.unique(labels[labels >= 0])) == self.n_clusters
        return (self.supervised_steps if supervised else 0) + (self.steps if (labels < 0).any() else 0)

    def weights(self) -> dict[str, Tensor]:
        """All learned tensors by name, for `with_weights`.

        The names are network.*; classifier.weights (D, K) and classifier.intercept (K,); centre, () or (columns,), and
        spread (), by which rows are shifted and divided; scale (), the mean norm by which features are divided; columns
        (), the length of a row.
        """
        check_is_fitted(self)
        network = {f"network.{name}": tensor for name, tensor in self.network_.state_dict().items()}
        parts = {"centre": self._centre, "spread": self._spread, "scale": self._scale}
        parts["columns"] = torch.tensor(self.n_features_in_)
        return network | {f"classifier.{name}": tensor for name, tensor in self.classifier_._asdict().items()} | parts

    def with_weights(self, weights: Mapping[str, Tensor]) -> "XSDC":
        """Load the `weights` of another fit, to predict and transform.

        Attributes that depend on the fitted rows (`labels_`, `trace_`, ...) are not set.

        Raises:
            InputError: the weights belong to another number of clusters, representation or n_features.
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
                f"XSDC: the weights do not fit representation={self.representation!r} with n_features="
                f"{self.n_features} ({str(error).splitlines()[-1].strip()})"
            ) from error
        if len(classifier.intercept) != self.n_clusters:
            raise InputError(
                f"XSDC: the weights are those of {len(classifier.intercept)} clusters, but n_clusters={self.n_clusters}"
            )
        self.network_, self.classifier_ = network, classifier
        self._centre, self._spread, self._scale = centre, spread, scale
        self.n_features_in_, self._n_features_out = columns, len(classifier.weights)
        return self

    def _assignment(self, known: Constraints) -> Assignment:
        """The assignment rule to use with the known labels and links.

        Raises:
            InputError: bounds are set that the rule ignores, or the labels that it needs are missing.
        """
        bounds = {"min_share": self.min_share, "max_share": self.max_share}
        set_bounds = {name: share for name, share in bounds.items() if share is not None}
        labelled = len(np.unique(known.labels[known.labels >= 0])) == self.n_clusters
        if self.assignment == "auto":
            return "pseudo_labels" if labelled and not set_bounds else "balancing"
        if self.assignment != "balancing":
            for name, share in set_bounds.items():
                raise InputError(
                    f"{name}={share:g}: assignment={self.assignment} does not support bounds; remove it, or set "
                    "assignment=balancing"
                )
        if self.assignment == "pseudo_labels" and not labelled:
            raise InputError(
                "assignment=pseudo_labels needs labels of every cluster; pass such labels, or set assignment "
                "to auto or balancing"
            )
        return self.assignment

    def _solver(self, points: int, columns: int) -> Solver:
        """The settings of the steps, for so many points and columns.

        Raises:
            InputError: a setting is unknown or invalid, or does not fit the other parameters or the points.
        """
        given = vars(self.solver) if isinstance(self.solver, Solver) else self.solver or {}
        for name in given:
            if name not in Solver.__annotations__:
                raise unknown("setting of solver", name, Solver.__annotations__)
        solver = Solver(**given)
        clusters = solver.deep_clusters
        if clusters is not None and self.assignment != "deep_clustering":
            raise InputError(
                f"deep_clusters={clusters} is for assignment=deep_clustering, not {self.assignment}; remove it"
            )
        if self.assignment == "deep_clustering" and (clusters or self.n_clusters) > points:
            raise InputError(f"deep_clusters={clusters or self.n_clusters} should be <= n_samples={points}")
        if solver.copies > solver.batch_size:
            raise InputError(f"XSDC: copies={solver.copies} exceeds batch_size={solver.batch_size}; raise batch_size")
        if solver.copies > 1:
            side_of(columns, f"copies={solver.copies} requires", "set copies to 1")
        return solver

    def _phases(self, training: Reversal) -> list[Phase]:
        solver = training.solver
        size = solver.step_size or float(self.network_.usual_step)
        phases = []
        # Supervised steps on some of the clusters would learn features that ignore the others.
        if training.all_labelled:
            phases.append(Phase("supervised", self.supervised_steps, solver.supervised_step_size or size))
        if len(training.labelled) < len(training.inputs):
            phases.append(Phase("assigned", self.steps, size, solver.schedule == "falling"))
        return phases

    def _classify(self, training: Reversal, generator: np.random.Generator) -> None:
        """Fit the final classifier and set the labels of all points."""
        known, labelled, K = training.known, training.labelled, self.n_clusters
        raw = raw_features(self.network_, training.inputs)
        self._n_features_out = raw.shape[1]
        self._scale = feature_scale(raw[labelled] if len(labelled) else raw)
        features = normalised_features(raw, self._scale)
        self.penalty_ = training.weight()
        if training.all_labelled:
            chosen = final_classifier(features, known.labels, K, training.solver.classifier, self.penalty_)
            self.penalty_, self.classifier_ = chosen
        else:
            labels = torch.from_numpy(rounded_labels(training, features, self.penalty_, generator)).to(features.device)
            self.classifier_ = ridge(features, torch.nn.functional.one_hot(labels, K), self.penalty_)
        classified = constrained_labels(self.classifier_.scores(features).cpu().numpy(), known)
        self.labels_, order = numbered(self, classified, known.labels)
        self.classifier_ = Ridge(self.classifier_.weights[:, order], self.classifier_.intercept[order])
        self.cluster_sizes_ = np.bincount(self.labels_, minlength=K)
        final = torch.nn.functional.one_hot(torch.from_numpy(self.labels_).to(features.device), K)
        self.objective_ = float(ridge_objective(features, final, self.penalty_))
        self.criterion_ = float(ridge_objective(features, final, self.penalty or UNLABELLED_PENALTY))

    def _inputs(self, rows: Tensor) -> Tensor:
        return (rows - self._centre.to(rows)) / self._spread.to(rows)

    def _features(self, X: ArrayLike) -> Tensor:
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False, device=self.device)
        inputs = self._inputs(rows).to(self._centre.dtype)
        return normalised_features(raw_features(self.network_.to(rows.device), inputs), self._scale.to(rows.device))

    def _scores(self, X: ArrayLike) -> Tensor:
        features = self._features(X)
        return type(self.classifier_)(*(part.to(features.device) for part in self.classifier_)).scores(features)
