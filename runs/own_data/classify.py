"""`transduce classify`: classes of a user's own pictures."""

import dataclasses
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from clustering.files.tensors import fingerprint_of
from clustering.foundation.errors import InputError, unknown
from fsl.class_names import levels
from fsl.classifier_files import check_replaceable
from fsl.features.prompts import PROMPTS
from fsl.few_shot_classifier import FewShotClassifier
from fsl.named_strategies import name_of, statement_of
from fsl.picture_folders import check_apart, copies, in_both, labelled_pictures, unlabelled_pictures
from runs.cache import Store, key, revisions
from runs.config.base import content
from runs.config.groups import Choice
from runs.config.source import freeze
from runs.own_data.own_config import DEFAULT_NETWORK, ClassifyConfig
from runs.own_data.page import as_utf8, check_rows, csv_of
from runs.own_data.pictures import Pictures, encode, encode_names
from runs.stages.lineage import short
from runs.storage.together import check_place

if TYPE_CHECKING:
    from clustering.foundation.progress import Progress

STAGE = "classify"
COLUMNS = ("picture", "class")


@dataclass(frozen=True, eq=False)
class Classified:
    """Classified pictures.

    Attributes:
        config: the config, with the strategy that was used.
        classifier: the fitted or loaded classifier.
        query: the N classified pictures.
        probabilities: (N, K) class probabilities.
        warnings: warnings about the result.
        broken: error messages of pictures that could not be read.
        key: key of the result.
    """

    config: ClassifyConfig
    classifier: FewShotClassifier
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
    def rows(self) -> pd.DataFrame:
        """A row for each of the N pictures: picture, its path relative to the query folder; class and probability of
        the prediction; and if every picture is in a folder with the name of a class, truth."""
        names, best = _relative(self.config, self.query.files), self.probabilities.argmax(axis=1)
        texts = dict(zip(COLUMNS, (names, np.array(self.classes, dtype=object)[best]), strict=True))
        rows = pd.DataFrame(texts, dtype=object)  # names of files need not be UTF-8, as strings of pandas are
        rows["probability"] = self.probabilities.max(axis=1)
        known, depth = set(self.classes), 1 + max(name.count("/") for name in self.classes)

        def class_of(folders: list[str]) -> str:
            ends = range(len(folders), 0, -1)
            paths = ("/".join(folders[end - size : end]) for end in ends for size in range(min(depth, end), 0, -1))
            return next((path for path in paths if path in known), "")

        truth = [class_of(name.split(os.sep)[:-1]) for name in names]
        return rows.assign(truth=np.array(truth, dtype=object)) if all(truth) else rows

    @property
    def accuracy(self) -> float | None:
        """Fraction of the pictures whose folder has the name of the predicted class; None without `truth`."""
        return float((self.rows["class"] == self.rows["truth"]).mean()) if "truth" in self.rows else None

    def predictions(self) -> str:
        """The predictions as CSV: name, class and the probability of each class; only the name of a picture
        that could not be read."""
        chances = pd.DataFrame(self.probabilities, columns=[as_utf8(f"p({name})") for name in self.classes])
        found = self.rows[[*COLUMNS[1:]]].join(chances).set_index(self.query.kept)
        names = _relative(self.config, self.query.paths)
        return csv_of(pd.DataFrame({COLUMNS[0]: names}, dtype=object).join(found))

    def class_counts(self) -> pd.DataFrame:
        """A row for each class: labelled and predicted pictures, of these the correct ones, and those in its folder;
        without the columns that are unknown."""
        rows, frame = self.rows, pd.DataFrame(index=pd.Index(self.classes, name="class"))
        if len(self.classifier.support_):
            frame["labelled"] = np.bincount(self.classifier.support_labels_, minlength=len(self.classes))
        frame["predicted"] = rows["class"].value_counts()
        if "truth" in rows:
            frame["correct"] = rows.loc[rows["class"] == rows["truth"], "class"].value_counts()
            frame["in its folder"] = rows["truth"].value_counts()
        return frame.fillna(0).astype(int).map("{:,}".format).reset_index()

    def by_level(self) -> list[str]:
        """A sentence for each level above the classes, of names such as "bird/wren"."""
        place, lines = {name: k for k, name in enumerate(self.classes)}, []
        for depth, level in enumerate(levels(self.classes, self.probabilities)[:-1], 1):
            shown = ", ".join(f"{name} {int((level.labels == name).sum()):,}" for name in level.names)
            right = ""
            if "truth" in self.rows:
                true = level.names[level.of_class[self.rows["truth"].map(place)]]
                right = f"; {100 * float(np.mean(level.labels == true)):.1f} % agree with the folder"
            lines.append(f"Level {depth} of the class names, by the sums of their probabilities: {shown}{right}.")
        return lines

    def statements(self) -> list[str]:
        """Sentences that explain how the pictures were classified."""
        classifier, strategy = self.classifier, self.classifier.strategy_
        lines = [statement_of(strategy)]
        stated = getattr(strategy, "proportions", None)
        if isinstance(stated, (tuple, list)):
            shares = ", ".join(
                f"{name} {100 * share / sum(stated):.3g} %" for name, share in zip(self.classes, stated, strict=True)
            )
            lines.append(f"The class proportions that you stated: {shares}.")
        if strategy.transductive and self.config.by_itself:
            refined = f" and of {classifier.refined_by_:,} earlier pictures" if classifier.refined_by_ else ""
            by = ["by the class names"] if classifier.text_ is not None else []
            if classifier.prototypes_ is not None:
                by.append(f"by the nearest prototype: the mean of the labelled pictures of a class{refined}")
            lines = [
                f"Each picture was classified independently, {', and '.join(by)}. With alone=false, "
                f"{short(self.config.strategy)} classifies them jointly."
            ]
        return [*lines, *self.by_level()]

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON."""
        return {
            "config": self.config.as_json(),
            "key": self.key,
            "classes": list(self.classes),
            "predictions": self.rows.set_index("picture")["class"].to_dict(),
            "accuracy": self.accuracy,
            "warnings": list(self.warnings),
            "broken": list(self.broken),
        }


def check_outputs(config: ClassifyConfig) -> None:
    """Check that the files can be written, and that only files of the same kind would be overwritten.

    Raises:
        InputError: a file cannot be written; the message names the key and the file.
    """
    if config.output is not None:
        check_rows(Path(config.output).expanduser(), COLUMNS, "predictions")
    if config.save is not None:
        place = Path(config.save).expanduser()
        check_place("save", place, ".safetensors")
        try:
            check_replaceable(place)
        except InputError as error:
            raise InputError(f"save={error}") from None


def classify(config: ClassifyConfig, store: Store, progress: "Progress") -> Classified:
    """Classify the pictures of a folder.

    Args:
        config: the config, with checked paths.
        store: the store, for cached features.
        progress: shows progress and messages.

    Raises:
        InputError: a folder or picture cannot be used, or the network is not that of the saved classifier.
    """
    files = unlabelled_pictures(config.query or "")
    if config.classifier is None:
        classifier, support, labels = _fitted(config, store, progress)
    else:
        place, where = Path(config.classifier).expanduser(), {"backbone": config.backbone, "weights": config.pretrained}
        classifier, support, labels = FewShotClassifier.load(place, device=config.device, **where), None, []
    query = encode(files, classifier.encoder(), store, progress, skip=config.broken == "skip")
    strategy = classifier.strategy_
    jointly = strategy.transductive and not config.by_itself and len(query.files) > 1
    messages = list[str]()
    if config.classes is not None and getattr(strategy, "text", "none") == "none":
        messages.append(f"{name_of(strategy)} does not use class names; it uses the labelled pictures only")
    messages += _duplicates(support, labels, query, jointly)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        probabilities = classifier.predict_proba(query.features, alone=config.by_itself)
    if jointly:
        classifier.refine(query.features, probabilities)
    if config.classifier is not None:
        options = {name: freeze(value) for name, value in dataclasses.asdict(strategy).items()}  # type: ignore[call-overload]
        config = config.replace(strategy=Choice("strategy", name_of(strategy), options))
    inputs: dict[str, Any] = {
        "support": None if support is None else [labels, support.digests],
        "query": [_relative(config, query.paths), query.digests],
        "classifier": content("classifier", config.classifier, "a saved one") if config.classifier else None,
        "encoder": classifier.encoder_fingerprint_,
    }
    if classifier.text_ is not None and config.classes is not None:
        text = {"text": torch.from_numpy(classifier.text_)}
        inputs["text"] = fingerprint_of(text, repr(classifier.logit_scale_), *map(str, classifier.classes_))
    return Classified(
        config=config,
        classifier=classifier,
        query=query,
        probabilities=probabilities,
        warnings=(*messages, *(str(warning.message) for warning in caught)),
        broken=(*(() if support is None else support.broken), *query.broken),
        key=key(STAGE, config.result_keys(), inputs, revisions(strategy=type(strategy))),
    )


def _fitted(
    config: ClassifyConfig, store: Store, progress: "Progress"
) -> tuple[FewShotClassifier, Pictures | None, list[str]]:
    """Return the classifier, and the pictures and classes it was fitted on; None and [] for class names alone."""
    strategy, name = config.strategy.build(), config.strategy.name
    use = getattr(strategy, "text", "none")
    if use == "required" and config.classes is None:
        raise InputError(f"strategy={name} requires class names: add --classes a,b,c")
    if use == "none" and config.support is None:
        raise InputError(
            f"strategy={name} does not use class names: add labelled pictures with --support FOLDER, or choose a "
            "strategy that uses them, such as adaptive or laplacianshot"
        )
    names = sorted(config.class_names())  # so that their order does not matter to the cache
    given = None if config.support is None else labelled_pictures(config.support)
    if given is not None:
        check_apart(str(config.support), str(config.query))
        if names and (other := sorted(set(given.labels) - set(names))):
            raise InputError(
                f"support: the folder {other[0]!r} is not among the class names: "
                f"{unknown('class', other[0], names)} Rename the folder, or add the name to classes="
            )
    if config.backbone is None:
        progress.note(DEFAULT_NETWORK)
    classifier = FewShotClassifier(strategy, prompts=config.templates(), device=config.device, **config.network)
    encoder = classifier.encoder()
    evidence: dict[str, Any] = {}
    if names:
        text = encode_names(names, classifier.prompts or PROMPTS, encoder, store, progress).numpy()
        scale = encoder.logit_scale if config.logit_scale is None else config.logit_scale
        evidence = {"class_names": names, "text": text, "logit_scale": scale}
    if given is None:
        return classifier.fit(**evidence), None, []
    support = encode(given.files, encoder, store, progress, skip=config.broken == "skip")
    labels = [given.labels[place] for place in support.kept]
    if not names and (lost := sorted(set(given.labels) - set(labels))):
        raise InputError(f"support: no picture of class {lost[0]!r} can be read; add others, or remove the class")
    return classifier.fit(support.features, labels, **evidence), support, labels


def _duplicates(support: Pictures | None, labels: Sequence[str], query: Pictures, jointly: bool) -> list[str]:
    """Return warnings about identical pictures: with different labels, in both support and query, or among queries that
    are classified jointly."""
    asked, known = dict(zip(query.paths, query.digests, strict=True)), dict[str, str]()
    contradictory = list[tuple[str, str]]()
    if support is not None:
        known = dict(zip(support.paths, support.digests, strict=True))
        classes = dict(zip(support.files, labels, strict=True))
        contradictory = [pair for pair in copies(known) if len({classes.get(file) for file in pair}) > 1]
    lines = []
    for pairs, what, meaning in (
        (contradictory, "the labelled picture", "their classes differ; remove the wrong one"),
        (in_both(known, asked), "the labelled picture", "it cannot be used to test the classifier"),
        (copies(asked) if jointly else [], "the picture", "duplicates inflate each other's confidence"),
    ):
        if pairs:
            more = f" ({len(pairs) - 1:,} more pairs)" if len(pairs) > 1 else ""
            lines.append(f"{pairs[0][0]} is identical to {what} {pairs[0][1]}{more}: {meaning}")
    return lines


def _relative(config: ClassifyConfig, files: Sequence[str]) -> list[str]:
    top = Path(config.query or "").expanduser()
    return [os.path.relpath(file, top) for file in files]
