"""A person's own pictures, classified: from folders, or a saved classifier, to probabilities."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.code import code_fingerprint
from clustering.foundation.errors import InputError
from fsl.few_shot_classifier import FewShotClassifier
from fsl.named_strategies import name_of
from fsl.picture_folders import check_apart, copies, in_both, labelled_pictures, unlabelled_pictures
from runs.config.base import content, identity
from runs.config.classify import ClassifyConfig
from runs.config.groups import Choice, freeze
from runs.own_data.own_pictures import Pictures, encode
from runs.own_data.trained_networks import networks_here
from runs.storage.store import Store

if TYPE_CHECKING:
    from fsl.progress import Progress

STAGE = "classify"


@dataclass(frozen=True, eq=False)
class Classified:
    """Pictures with their classes.

    Attributes:
        config: what was asked for, with the strategy that was used.
        classifier: that was fitted, or read.
        support: labelled pictures by class; empty where the classifier was read.
        query: the N pictures that were labelled.
        probabilities: (N, K).
        warnings: what may be wrong with them.
        broken: what is wrong with pictures that could not be read.
        identity: of the result.
    """

    config: ClassifyConfig
    classifier: FewShotClassifier
    support: dict[str, list[str]]
    query: Pictures
    probabilities: NDArray[np.floating]
    warnings: tuple[str, ...]
    broken: tuple[str, ...]
    identity: str

    @property
    def classes(self) -> tuple[str, ...]:
        """K names, sorted."""
        return tuple(map(str, self.classifier.classes_))

    @property
    def labels(self) -> list[str]:
        """The class of each picture."""
        return [self.classes[place] for place in self.probabilities.argmax(axis=1)]

    @property
    def names(self) -> list[str]:
        """The pictures, relative to their folder."""
        return _relative(self.config, self.query.files)

    @property
    def all_names(self) -> list[str]:
        """Likewise with those that could not be read."""
        return _relative(self.config, self.query.paths)

    @property
    def truth(self) -> list[str] | None:
        """The classes that the folders of the pictures are called like; None where one is in no such folder."""
        known = set(self.classes)
        found = [next((part for part in reversed(name.split(os.sep)[:-1]) if part in known), "") for name in self.names]
        return found if all(found) else None

    @property
    def accuracy(self) -> float | None:
        """Share of the pictures whose folder is called like their class; None where the folders are no classes."""
        return None if self.truth is None else float(np.mean(np.array(self.labels) == np.array(self.truth)))


def classify(
    config: ClassifyConfig,
    store: Store,
    progress: "Progress",
    *,
    other: bool = False,
    known: dict[tuple[str, ...], Pictures] | None = None,
) -> Classified:
    """Label the pictures of a folder.

    Args:
        config: whose places were found right.
        other: of a saved classifier, take the config's strategy and not the saved one.
        known: pictures that this command has encoded, for its other strategies.

    Raises:
        InputError: folders or pictures that cannot be used, or another network than a saved classifier's.
    """
    assert config.query is not None
    known = {} if known is None else known
    files = unlabelled_pictures(config.query)
    classifier, support, labels = _classifier(config, store, progress, other, known)
    query = encode(files, classifier.encoder(), store, progress, skip=config.broken == "skip", known=known)
    strategy = classifier.strategy_
    together = strategy.transductive and not config.by_itself and len(query.files) > 1
    told = [*(_twice(support, labels, query) if support else ()), *(_copied(query) if together else ())]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        probabilities = classifier.predict_proba(query.features, alone=config.by_itself)
    told += [str(warning.message) for warning in caught]
    if together:
        classifier.refine(query.features, probabilities)
    options = {name: freeze(value) for name, value in vars(strategy).items()}
    chosen = Choice("strategy", name_of(strategy), options) if config.classifier else config.strategy
    config = config.replace(strategy=chosen)
    by_class: dict[str, list[str]] = {}
    for file, label in zip(support.files if support else (), labels, strict=True):
        by_class.setdefault(label, []).append(file)
    return Classified(
        config=config,
        classifier=classifier,
        support=by_class,
        query=query,
        probabilities=probabilities,
        warnings=tuple(told),
        broken=(*(support.broken if support else ()), *query.broken),
        identity=identity(
            STAGE,
            config=config.result_keys(),
            support=[labels, support.digests] if support else None,
            query=[_relative(config, files), query.digests],
            classifier=content("classifier", config.classifier, "a saved one") if config.classifier else None,
            encoder=classifier.encoder_fingerprint_,
            code=code_fingerprint("fsl.few_shot_classifier", type(strategy).__module__),
        ),
    )


def _classifier(
    config: ClassifyConfig,
    store: Store,
    progress: "Progress",
    other: bool,
    known: dict[tuple[str, ...], Pictures],
) -> tuple[FewShotClassifier, Pictures | None, list[str]]:
    """The classifier, the pictures that it was fitted on with their classes, unless it was read."""
    where: dict[str, Any] = {
        "backbone": config.backbone,
        "weights": config.pretrained,
        "device": config.device,
    }
    if config.classifier is not None:
        strategy = config.strategy.build() if other else None
        return FewShotClassifier.load(Path(config.classifier).expanduser(), strategy=strategy, **where), None, []
    assert config.support is not None
    assert config.query is not None
    check_apart(config.support, config.query)
    given = labelled_pictures(config.support)
    classifier = FewShotClassifier(config.strategy.build(), **where)
    try:
        encoder = classifier.encoder()
    except InputError as error:
        raise InputError(f"{error}. {networks_here(store)}") from error
    support = encode(given.files, encoder, store, progress, skip=config.broken == "skip", known=known)
    labels = [given.labels[place] for place in support.kept]
    lost = sorted(set(given.labels) - set(labels))
    if lost:
        raise InputError(f"support: no picture of the class {lost[0]!r} can be read; put others there, or remove it")
    return classifier.fit(support.features, labels), support, labels


def _twice(support: Pictures, labels: Sequence[str], query: Pictures) -> list[str]:
    """What is to be said of pictures that are labelled in two ways, or both labelled and to be labelled."""
    known, asked = (dict(zip(part.paths, part.digests, strict=True)) for part in (support, query))
    classes = dict(zip(support.files, labels, strict=True))
    torn = [pair for pair in copies(known) if len({classes.get(file) for file in pair}) > 1]
    return [
        *_pairs(torn, "the labelled picture", "their classes differ; remove the wrong one"),
        *_pairs(in_both(known, asked), "the labelled picture", "it is no test of the classes"),
    ]


def _copied(query: Pictures) -> list[str]:
    """What is to be said of pictures that are there twice, where they are labelled together."""
    found = copies(dict(zip(query.paths, query.digests, strict=True)))
    return _pairs(found, "the picture", "copies make each other's class more certain than it is")


def _pairs(found: Sequence[tuple[str, str]], what: str, meaning: str) -> list[str]:
    if not found:
        return []
    more = f"; so are {len(found) - 1:,} more" if len(found) > 1 else ""
    return [f"{found[0][0]} is, byte by byte, {what} {found[0][1]}{more}: {meaning}"]


def _relative(config: ClassifyConfig, files: Sequence[str]) -> list[str]:
    top = Path(config.query or "").expanduser()
    return [os.path.relpath(file, top) for file in files]
