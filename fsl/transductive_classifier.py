"""A semi-supervised classifier with scikit-learn's interface: labels for all points of a pile, from a few of them."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d
from torch import Tensor

from clustering.estimator_input import as_array, of_one_type, valid_rows
from clustering.feature_files import as_rows
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.graphs.knn import nearest_among
from clustering.lengths import unit_rows
from fsl.class_names import ClassNames, check_targets, classes_of
from fsl.episodes import LOGIT_SCALE, Episodes, Strategy
from fsl.extra.ridge import Labels, Ridge
from fsl.extra.smoothed_ridge import FEW, SmoothedPoints, SmoothedRidge, lifted
from fsl.few_shot_classifier import FewShotClassifier
from fsl.named_strategies import named

UNKNOWN = -1
"""Label of a point without label, as in `sklearn.semi_supervised`."""

NEIGHBOURS = 10
"""Points of the pile from which a new point takes its class probabilities."""

_OF_LABELS = ("classes_", "labelled_", "label_distributions_", "transduction_", "_left_out", "_chosen")

_ROWS = 4096  # new points compared with their neighbours at a time


class TransductiveClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify all points of a pile from the labels of some of them.

        classifier = TransductiveClassifier().fit(X, y)  # y is -1 where the label is unknown
        classifier.transduction_

    It has the interface of `sklearn.semi_supervised.LabelSpreading`. The unlabelled points are classified jointly by a
    transductive strategy; a new point takes the mean probabilities of its nearest points of the pile. An inductive
    strategy classifies new points itself.

    Class names can replace labels, or add to them, with features from a network with a text tower:

        classifier = TransductiveClassifier().fit(X, y, class_names=["cat", "dog"], text=text_features)

    With the default strategy, a second `fit` on the same X takes a fraction of the time, since neighbours and smoothed
    features are kept in memory; a copy by `clone` or `pickle` does not have them.

    Parameters
    ----------
    strategy : name of a strategy, or a strategy object such as LaplacianShot(weight=0.3). A name stands for the
        defaults, except for shift=False.

    Attributes
    ----------
    classes_ : (K,) sorted classes.
    label_distributions_ : (N, K) class probabilities of all points, one-hot where a label was given. Without class
        names and with labels of only one class, all points have it.
    transduction_ : (N,) class of each point, the given one where a label was given.
    labelled_ : (S,) indices of the labelled points.
    strategy_ : the strategy object.
    n_features_in_, feature_names_in_ : number and names of the features.
    """

    _prepared: tuple[str, SmoothedPoints] | None = None  # fingerprint of the points and settings
    _chosen: tuple[int, float] | None = None

    def __init__(self, strategy: str | Strategy = "smoothed_ridge") -> None:
        self.strategy = strategy

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        class_names: Sequence[str] | None = None,
        text: ArrayLike | None = None,
        logit_scale: float | None = None,
    ) -> Self:
        """Classify the points.

        Args:
            X: (N, D) features of all points.
            y: (N,) labels: integers, strings or others of one type. Unknown ones are -1, "", None, NaN or NA.
            class_names: K class names. Labels must be among them; the others have no label.
            text: (K, D) features of the class names, in their order.
            logit_scale: factor of the cosines between points and class names; None: 100.

        Raises:
            InputError: there is neither a label nor a class name, a label is not among the class names, the strategy
                cannot use what is given, or X is not usable.
        """
        strategy = named(self.strategy)
        names = ClassNames.given(class_names, text)
        known, labels = given_labels(y)
        X = self._checked(X, reset=True)
        if len(known) != len(X):
            raise InputError(f"y has {len(known)} labels, but X has {len(X)} rows")
        if names is None and not known.any():
            raise InputError(
                "no point has a label: label at least one point of each class (y other than -1), or give class_names "
                "and text"
            )
        self.classes_, places = classes_of(labels, names, X.shape[1])
        self.strategy_, self.labelled_, self._points = strategy, np.flatnonzero(known), X
        self._left_out: NDArray[np.floating] | None = None
        self._inductive: FewShotClassifier | None = None
        self._chosen = None
        distributions = np.ones((len(X), len(self.classes_)), X.dtype)
        if len(self.classes_) > 1 and isinstance(strategy, SmoothedRidge):
            ridge, distributions = self._by_ridge(places, names, logit_scale)
            self._chosen = int(ridge.level[0]), float(ridge.penalty[0])
        elif len(self.classes_) > 1:
            few = FewShotClassifier(strategy).fit(
                X[known] if known.any() else None,
                self.classes_[places] if known.any() else None,
                class_names=None if names is None else names.names.tolist(),
                text=None if names is None else names.text,
                logit_scale=logit_scale,
            )
            if not known.all():
                distributions[~known] = few.predict_proba(X[~known])
            self._inductive = None if strategy.transductive else few
        distributions[self.labelled_] = np.eye(len(self.classes_), dtype=X.dtype)[places]
        self.label_distributions_ = distributions
        self.transduction_ = self.classes_[distributions.argmax(axis=1)]
        return self

    def prepare(self, X: Any) -> Self:
        """Find neighbours and smooth the features of the points (N, D), before there is any label.

        `next_to_label` can then choose the first points, and a `fit` on the same X does not compute them again.

        Raises:
            InputError: X is not usable.
        """
        self.strategy_, self._points = named(self.strategy), self._checked(X, reset=True)
        for name in _OF_LABELS:
            self.__dict__.pop(name, None)
        self.smoothed()
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """(Q,) class of new points (Q, D)."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """(Q, K) class probabilities of new points (Q, D), in the order of classes_.

        Each point takes the mean of the distributions of its nearest points of the pile, weighted by their similarity.
        With an inductive strategy, the strategy itself classifies it.
        """
        check_is_fitted(self, "label_distributions_")
        X = self._checked(X, reset=False).astype(self._points.dtype, copy=False)
        if self._inductive is not None:
            return self._inductive.predict_proba(X)
        pile, points = self._compared(torch.from_numpy(self._points)), self._compared(torch.from_numpy(X))
        distributions, found = torch.from_numpy(self.label_distributions_), []
        for part in torch.split(points, _ROWS):
            near = nearest_among(pile, part, NEIGHBOURS)
            squared = (pile[near] - part[:, None]).square().sum(dim=2)
            weights = torch.softmax(-squared / squared.mean(dim=1, keepdim=True).clamp_min(1e-12), dim=1)
            found.append((distributions[near] * weights[..., None]).sum(dim=1))
        probabilities: NDArray[np.floating] = torch.cat(found).numpy()
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy of `predict` on the points with known label; those with unknown label are ignored.

        Raises:
            InputError: no label is known, or X and y differ in length.
        """
        known, labels = given_labels(y)
        predicted = self.predict(X)
        if len(known) != len(predicted):
            raise InputError(f"y has {len(known)} labels, but X has {len(predicted)} rows")
        if not known.any():
            raise InputError("y has no known label to compare with; give labels other than -1")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(predicted[known] == labels, weights=weights))

    def smoothed(self) -> SmoothedPoints:
        """The smoothed features of the pile; those of `smoothed_ridge` with its defaults for another strategy."""
        check_is_fitted(self, "_points")
        strategy = self._ridge
        key = f"{strategy.transform} {strategy.n_neighbors} {strategy.smoothing}"
        key = fingerprint(key, str(self._points.shape), np.ascontiguousarray(self._points).data)
        if self._prepared is None or self._prepared[0] != key:
            features = torch.from_numpy(self._points)
            self._prepared = key, strategy.prepare(features, features.mean(dim=0))
        return self._prepared[1]

    @property
    def _ridge(self) -> SmoothedRidge:
        return self.strategy_ if isinstance(self.strategy_, SmoothedRidge) else SmoothedRidge()

    def chosen(self) -> tuple[int, float]:
        """Index of the smoothed features, and penalty, of the last regression; the defaults before, and for another
        strategy."""
        return self._chosen or self._ridge.default

    def left_out_distributions(self) -> NDArray[np.floating]:
        """(S, K) class probabilities of each labelled point, computed without its label.

        They are those of `smoothed_ridge`; with another strategy, of its default settings.
        """
        check_is_fitted(self, "label_distributions_")
        if self._left_out is None:
            places = self.label_distributions_[self.labelled_].argmax(axis=1)
            self._by_ridge(places, None, None)
        assert self._left_out is not None
        return self._left_out

    def _by_ridge(
        self, places: NDArray[np.integer], names: ClassNames | None, logit_scale: float | None
    ) -> tuple[Ridge, NDArray[np.floating]]:
        """The regression, and (N, K) class probabilities of all points. Smoothed features are kept for the next fit."""
        prior, X = None, self._points
        if names is not None:
            features = torch.from_numpy(X)[None]
            none = torch.zeros(1, 0, dtype=torch.int64)
            episodes = Episodes(
                features[:, :0],
                none,
                features,
                len(self.classes_),
                text=torch.from_numpy(names.text.astype(X.dtype))[None],
                logit_scale=LOGIT_SCALE if logit_scale is None else logit_scale,
            )
            prior = torch.softmax(episodes.log_prior, dim=2)
        one_hot = np.eye(len(self.classes_), dtype=X.dtype)[places]
        labels = Labels(torch.from_numpy(self.labelled_)[None], torch.from_numpy(one_hot)[None])
        ridge, logits = self._ridge.fitted(self.smoothed(), labels, prior)
        self._left_out = ridge.left_out[0].exp().numpy().astype(X.dtype)
        return ridge, torch.softmax(logits[0], dim=1).numpy()

    def _compared(self, X: Tensor) -> Tensor:
        """Rows whose Euclidean distances tell how near points (Q, D) are: lengths count as they do for the strategy."""
        pile = torch.from_numpy(self._points)
        if isinstance(self.strategy_, SmoothedRidge) and X.shape[1] <= FEW:
            return lifted(X, pile)
        centred = X - torch.from_numpy(self._points.mean(axis=0))
        return centred if self.strategy_.transform == "UN" else unit_rows(centred)

    def _checked(self, X: Any, *, reset: bool) -> NDArray[np.floating]:
        return valid_rows(self, as_rows(X, "X"), reset=reset)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_prepared"}


def given_labels(y: Any) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """(N,) whether each label is known, and the known ones.

    Raises:
        InputError: the labels are not one-dimensional, or of several types.
    """
    values = as_array(y)
    values = values.astype(object) if isinstance(values, pd.Series) else values  # Int64 with NA would become float64
    values = column_or_1d(np.array(values, dtype=object) if isinstance(values, (list, tuple)) else values, warn=True)
    missing = np.asarray(pd.isna(values))
    of_numpy = ("nan",) if values.dtype.kind == "U" else ()  # what numpy makes of NaN beside text
    for unknown in (UNKNOWN, str(UNKNOWN), "", b"", *of_numpy):
        missing[~missing] = [value == unknown for value in values[~missing].tolist()]
    known = values[~missing]
    if known.dtype.kind == "O":
        return ~missing, of_one_type(known, "y")
    if len(known):
        assert_all_finite(known, input_name="y")
        check_targets(known)
    return ~missing, known
