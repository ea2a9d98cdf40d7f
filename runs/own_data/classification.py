"""Classification of a user's own pictures, from folders or a saved classifier."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from clustering.files.tensors import fingerprint_of
from clustering.foundation.errors import InputError, unknown
from fsl.episodes import Strategy, TextUse
from fsl.features.prompts import PROMPTS
from fsl.few_shot_classifier import FewShotClassifier
from fsl.named_strategies import name_of
from fsl.picture_folders import check_apart, copies, in_both, labelled_pictures, unlabelled_pictures
from runs.cache import Store, key, revisions
from runs.config.base import content
from runs.config.groups import Choice
from runs.config.source import freeze
from runs.own_data.classify_config import ClassifyConfig
from runs.own_data.feature_rows import rows_of_features, text_features
from runs.own_data.picture_features import Pictures, encode, encode_names
from runs.own_data.trained_networks import networks_here

if TYPE_CHECKING:
    from clustering.foundation.progress import Progress

STAGE = "classify"


@dataclass(frozen=True, eq=False)
class Classified:
    """Classified pictures.

    Attributes:
        config: the config, with the strategy that was used.
        classifier: the fitted or loaded classifier.
        support: labelled pictures by class; empty for a loaded classifier, and with class names alone.
        query: the N classified pictures, or rows of a file of features.
        probabilities: (N, K) class probabilities.
        warnings: warnings about the result.
        broken: error messages of pictures that could not be read.
        key: key of the result.
    """

    config: ClassifyConfig
    classifier: FewShotClassifier
    support: dict[str, list[str]]
    query: Pictures
    probabilities: NDArray[np.floating]
    warnings: tuple[str, ...]
    broken: tuple[str, ...]
    key: str

    @property
    def classes(self) -> tuple[str, ...]:
        """The K sorted class names."""
        return tuple(map(str, self.classifier.classes_))

    @cached_property
    def labels(self) -> list[str]:
        """The predicted class of each picture."""
        return [self.classes[place] for place in self.probabilities.argmax(axis=1)]

    @property
    def source(self) -> str:
        """The folder of the pictures, or the file of their features."""
        return self.config.query or self.config.query_features or ""

    @property
    def noun(self) -> str:
        """What the queries are, in the singular."""
        return "row" if self.config.query is None else "picture"

    @cached_property
    def names(self) -> list[str]:
        """The paths of the pictures, relative to the query folder; row numbers of a file of features, from 0."""
        return _relative(self.config, self.query.files)

    @property
    def all_names(self) -> list[str]:
        """The same, including pictures that could not be read."""
        return _relative(self.config, self.query.paths)

    @cached_property
    def truth(self) -> list[str] | None:
        """The class of each picture by the name of its folder; None unless every picture is in such a folder."""
        known = set(self.classes)
        truth = [next((part for part in reversed(name.split(os.sep)[:-1]) if part in known), "") for name in self.names]
        return truth if all(truth) else None

    @property
    def accuracy(self) -> float | None:
        """Fraction of the pictures whose folder has the name of the predicted class; None without `truth`."""
        return None if self.truth is None else float(np.mean(np.array(self.labels) == np.array(self.truth)))


def classify(
    config: ClassifyConfig,
    store: Store,
    progress: "Progress",
    *,
    other: bool = False,
    known: dict[tuple[str, ...], Pictures] | None = None,
) -> Classified:
    """Classify the pictures of a folder, or the rows of a file of features.

    Args:
        config: the config, with checked paths.
        store: the store, for cached features.
        progress: shows progress and messages.
        other: for a saved classifier, use the config's strategy instead of the saved one.
        known: pictures already encoded by this command; new ones are added.

    Raises:
        InputError: a folder or picture cannot be used, or the network is not that of the saved classifier.
    """
    known = {} if known is None else known
    files = () if config.query is None else unlabelled_pictures(config.query)
    classifier, support, labels = _classifier(config, store, progress, other, known)
    if config.query is None:
        query = rows_of_features(config, classifier.n_features_in_)
    else:
        query = encode(files, classifier.encoder(), store, progress, skip=config.broken == "skip", known=known)
    strategy = classifier.strategy_
    together = strategy.transductive and not config.by_itself and len(query.files) > 1
    messages = list[str]()
    if config.classes is not None and getattr(strategy, "text", "none") == "none":
        messages.append(f"{name_of(strategy)} does not use class names; it uses the labelled pictures only")
    duplicates = _copied(query) if together and config.query is not None else ()
    messages += [*(_twice(support, labels, query) if support else ()), *duplicates]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        probabilities = classifier.predict_proba(query.features, alone=config.by_itself)
    messages += [str(warning.message) for warning in caught]
    if together:
        classifier.refine(query.features, probabilities)
    options = {name: freeze(value) for name, value in vars(strategy).items()}
    chosen = Choice("strategy", name_of(strategy), options) if config.classifier else config.strategy
    config = config.replace(strategy=chosen)
    names = {} if config.classes is None else {"text": _content(classifier)}
    by_class: dict[str, list[str]] = {}
    for file, label in zip(support.files if support else (), labels, strict=True):
        by_class.setdefault(label, []).append(file)
    return Classified(
        config=config,
        classifier=classifier,
        support=by_class,
        query=query,
        probabilities=probabilities,
        warnings=tuple(messages),
        broken=(*(support.broken if support else ()), *query.broken),
        key=key(
            STAGE,
            config.result_keys(),
            {
                "support": [labels, support.digests] if support else None,
                "query": [_relative(config, query.paths), query.digests],
                **names,
                "classifier": content("classifier", config.classifier, "a saved one") if config.classifier else None,
                "encoder": classifier.encoder_fingerprint_,
            },
            revisions(strategy=type(strategy)),
        ),
    )


def _classifier(
    config: ClassifyConfig,
    store: Store,
    progress: "Progress",
    other: bool,
    known: dict[tuple[str, ...], Pictures],
) -> tuple[FewShotClassifier, Pictures | None, list[str]]:
    """Return the classifier, and the pictures and classes it was fitted on; None and [] for a loaded classifier."""
    where: dict[str, Any] = {
        "backbone": config.backbone,
        "weights": config.pretrained,
        "device": config.device,
    }
    if config.classifier is not None:
        strategy = config.strategy.build() if other else None
        return FewShotClassifier.load(Path(config.classifier).expanduser(), strategy=strategy, **where), None, []
    names = config.class_names()
    strategy = config.strategy.build()
    _check_text(strategy, config)
    given = None if config.support is None else labelled_pictures(config.support)
    if config.support is not None and config.query is not None:
        check_apart(config.support, config.query)
    if given is not None and names is not None:
        _check_named(given.labels, names)
    classifier = FewShotClassifier(strategy, prompts=config.templates(), **where)
    text, logit_scale = text_features(config), config.logit_scale
    if given is not None or (names is not None and text is None):
        try:
            encoder = classifier.encoder()
        except InputError as error:
            raise InputError(f"{error}. {networks_here(store)}" if names is None else str(error)) from error
    if names is not None and text is None:
        names = tuple(sorted(names))  # so that their order does not matter to the cache
        text = encode_names(names, classifier.prompts or PROMPTS, encoder, store, progress).numpy()
        logit_scale = encoder.logit_scale if logit_scale is None else logit_scale
    evidence: dict[str, Any] = {"class_names": names, "text": text, "logit_scale": logit_scale}
    if given is None:
        return classifier.fit(**evidence), None, []
    support = encode(given.files, encoder, store, progress, skip=config.broken == "skip", known=known)
    labels = [given.labels[place] for place in support.kept]
    lost = sorted(set(given.labels) - set(labels))
    if lost and names is None:
        raise InputError(f"support: no picture of class {lost[0]!r} can be read; add others, or remove the class")
    return classifier.fit(support.features, labels, **evidence), support, labels


def _check_text(strategy: Strategy, config: ClassifyConfig) -> None:
    """Check that the strategy can use what is given, before anything is encoded.

    Raises:
        InputError: it requires class names and there are none, or it does not use them and there is nothing else.
    """
    use: TextUse = getattr(strategy, "text", "none")
    if use == "required" and config.classes is None:
        raise InputError(f"strategy={config.strategy.name} requires class names: add --classes a,b,c")
    if use == "none" and config.support is None:
        raise InputError(
            f"strategy={config.strategy.name} does not use class names: add labelled pictures with --support FOLDER, "
            "or choose a strategy that uses them, such as adaptive or laplacianshot"
        )


def _check_named(labels: Sequence[str], names: Sequence[str]) -> None:
    """Check that the classes of the support are among the class names.

    Raises:
        InputError: a class is not among them; the message suggests the closest name.
    """
    other = sorted(set(labels) - set(names))
    if other:
        more = f" ({len(other) - 1} more)" if len(other) > 1 else ""
        raise InputError(
            f"support: the folder {other[0]!r}{more} is not among the class names: "
            f"{unknown('class', other[0], names)} Rename the folder, or add the name to classes="
        )


def _content(classifier: FewShotClassifier) -> str:
    """Fingerprint of the class names and their features."""
    assert classifier.text_ is not None
    names = [str(name) for name in classifier.classes_]
    return fingerprint_of({"text": torch.from_numpy(classifier.text_)}, repr(classifier.logit_scale_), *names)


def _twice(support: Pictures, labels: Sequence[str], query: Pictures) -> list[str]:
    """Return warnings about identical pictures with different labels, or in both support and query."""
    known, asked = (dict(zip(part.paths, part.digests, strict=True)) for part in (support, query))
    classes = dict(zip(support.files, labels, strict=True))
    contradictory = [pair for pair in copies(known) if len({classes.get(file) for file in pair}) > 1]
    return [
        *_pairs(contradictory, "the labelled picture", "their classes differ; remove the wrong one"),
        *_pairs(in_both(known, asked), "the labelled picture", "it cannot be used to test the classifier"),
    ]


def _copied(query: Pictures) -> list[str]:
    """Return warnings about duplicate queries, which are classified jointly."""
    duplicates = copies(dict(zip(query.paths, query.digests, strict=True)))
    return _pairs(duplicates, "the picture", "duplicates inflate each other's confidence")


def _pairs(pairs: Sequence[tuple[str, str]], what: str, meaning: str) -> list[str]:
    if not pairs:
        return []
    more = f" ({len(pairs) - 1:,} more pairs)" if len(pairs) > 1 else ""
    return [f"{pairs[0][0]} is identical to {what} {pairs[0][1]}{more}: {meaning}"]


def _relative(config: ClassifyConfig, files: Sequence[str]) -> list[str]:
    if config.query is None:
        return list(files)
    top = Path(config.query).expanduser()
    return [os.path.relpath(file, top) for file in files]
