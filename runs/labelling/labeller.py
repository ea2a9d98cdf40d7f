"""Predictions for the whole pile from the labels given so far, their estimated accuracy, and what to label next."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from fsl.episodes import Strategy
from fsl.labelling.audit import audit_order, estimated_accuracy
from fsl.labelling.selection import Selection, next_to_label
from fsl.transductive_classifier import TransductiveClassifier
from runs.cache import Store
from runs.labelling.journal import Accuracy, Batch
from runs.labelling.label_config import PileConfig
from runs.labelling.pile import Pile

if TYPE_CHECKING:
    from clustering.foundation.progress import Progress

OPEN, NONE, SKIPPED = -1, -2, -3
"""Places of items without a label: without answer, of no class, or skipped."""
AUDITED = 0.1  # share of a batch that is drawn at random, for the estimated accuracy
TextOf = Callable[[Sequence[str]], "NDArray[np.floating]"]
"""Function that returns the features of class names, or raises an InputError that says why there are none."""


class Predicted(NamedTuple):
    """Predictions for N items.

    Attributes:
        classes: K class names.
        probabilities: (N, K) float32; 0 for a class without evidence.
        left_out: (N, K) float32, of labelled items, computed without their label; 0 for the others.
    """

    classes: tuple[str, ...]
    probabilities: NDArray[np.float32]
    left_out: NDArray[np.float32]

    def label(self, row: int) -> tuple[str, float]:
        """The most likely class of an item, and its probability."""
        best = int(self.probabilities[row].argmax())
        return self.classes[best], float(self.probabilities[row, best])


class Snapshot(NamedTuple):
    """The answers at one time.

    Attributes:
        number: number of answers so far.
        ids: N items.
        classes: K class names.
        given: (N,) index of each label; `OPEN`, `NONE` or `SKIPPED` for items without one.
        audit: (N,) whether an item is of the audit, so that its label is not used to fit.
        by_hand: (N,) whether an item was answered that no selection has chosen, and that is not of the audit.
        batch: number of items that the next batch is to have; 0 if the present one is not complete.
    """

    number: int
    ids: Sequence[str]
    classes: tuple[str, ...]
    given: NDArray[np.int64]
    audit: NDArray[np.bool_]
    by_hand: NDArray[np.bool_]
    batch: int

    @property
    def answered(self) -> NDArray[np.bool_]:
        """(N,) whether the class of an item is known, or that it has none."""
        return np.isin(self.given, (OPEN, SKIPPED), invert=True)

    def named(self, rows: Iterable[int]) -> list[str]:
        """The items of rows."""
        return [self.ids[row] for row in rows]


class Labeller:
    """Labels a pile anew whenever labels have been added; neighbours are found once.

    Args:
        features: (N, D) features.
        strategy: the strategy.
        selection: method of `next_to_label`.
        seed: seed of the random choices.
        text_of: function that returns the features of class names; None if they are not used.
        logit_scale: factor of the cosines between items and class names; None: 100.

    Attributes:
        hint: why class names are not used, if they are meant to be; None otherwise.
        order: (N,) the order in which the audit asks for items.
    """

    def __init__(
        self,
        features: NDArray[Any],
        strategy: Strategy,
        *,
        selection: Selection = "variance",
        seed: int = 0,
        text_of: TextOf | None = None,
        logit_scale: float | None = None,
    ) -> None:
        self.features, self.selection, self.seed = features, selection, seed
        self.text_of, self.logit_scale = text_of, logit_scale
        self.hint: str | None = None
        self.order = audit_order(len(features), seed)
        self._classifier = TransductiveClassifier(strategy)

    def predict(self, classes: Sequence[str], y: NDArray[np.int64]) -> Predicted | None:
        """Label all items.

        Args:
            classes: K class names.
            y: (N,) index of each given label, `OPEN` for the others.

        Returns:
            The predictions; None if there is evidence for fewer than two classes.
        """
        # Names that are sorted as the classes are given, and differ from the mark of an unknown label.
        known, names = y != OPEN, np.array([f"{place:06d}" for place in range(len(classes))])
        evidence: dict[str, Any] = {}
        self.hint = None
        if self.text_of is not None and len(classes) > 1:
            try:
                text = self.text_of(classes)
                evidence = {"class_names": names.tolist(), "text": text, "logit_scale": self.logit_scale}
            except InputError as error:
                self.hint = str(error)
        if not evidence and not known.any():
            self._classifier.prepare(self.features)
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about class sizes, which the page cannot act on
            fitted = self._classifier.fit(self.features, np.where(known, names[y], ""), **evidence)
        if len(fitted.classes_) < 2:
            return None
        columns = np.array([int(name) for name in fitted.classes_])
        probabilities = np.zeros((len(y), len(classes)), dtype=np.float32)
        probabilities[:, columns] = fitted.label_distributions_
        left_out = np.zeros_like(probabilities)
        left_out[np.ix_(fitted.labelled_, columns)] = fitted.left_out_distributions()
        return Predicted(tuple(classes), probabilities, left_out)

    def choose(self, candidates: NDArray[np.bool_], n: int, number: int) -> list[int]:
        """Choose up to n of the candidates to label next, after `predict`.

        Args:
            candidates: (N,) which items may be chosen.
            n: number of items.
            number: number of answers, which changes random choices.
        """
        excluded = np.flatnonzero(~candidates)
        seed = int(self._random(number).integers(2**31))
        chosen = next_to_label(self._classifier, n, method=self.selection, exclude=excluded, random_state=seed)
        return [int(row) for row in chosen]

    def step(self, now: Snapshot) -> tuple[Predicted | None, Batch]:
        """Label the pile anew, compare the audit with it, and choose the next batch.

        The answers of the audit are not used to fit, so that the predictions can be compared with all of them. The
        selection treats the items of the audit, and those answered by hand, as unlabelled: one that it takes leaves
        them (see `fsl.labelling.audit`).

        Returns:
            Predictions, None without evidence for two classes; and the next batch, with their accuracy.
        """
        given, answered, by_hand = now.given, now.answered, now.by_hand.copy()
        fitted = np.where((given >= 0) & ~now.audit, given, OPEN)
        predicted, accuracy, asked = self.predict(now.classes, fitted), None, now.audit & answered
        if predicted is not None and asked.any():
            right = predicted.probabilities[asked].argmax(axis=1) == given[asked]
            population = len(given) - int((answered & ~now.audit).sum())
            hand = predicted.left_out[by_hand].argmax(axis=1) == given[by_hand]
            found = asdict(estimated_accuracy(right, population, by_hand=hand))
            accuracy = Accuracy(**found, audited=len(right), population=population)
        free = given == OPEN
        wanted = min(now.batch, int(free.sum()))
        if not wanted:
            return predicted, Batch(accuracy=accuracy)
        if by_hand.any():  # the selection must not know what was answered by hand
            self.predict(now.classes, np.where(by_hand, OPEN, fitted))
        number = 0 if predicted is None else max(1, round(AUDITED * wanted)) if wanted > 1 else 0
        candidates = free | asked | by_hand
        batch, taken = list[int](), list[int]()
        while len(batch) < wanted - number and candidates.any():
            for row in self.choose(candidates, wanted - number - len(batch), now.number):
                candidates[row] = False
                (batch if free[row] else taken).append(row)
        free[batch] = by_hand[taken] = False
        # The next ones in the order are audited, answered by hand or not, so that their number does not depend on it.
        reached = [int(row) for row in self.order if free[row] or by_hand[row]][:number]
        drawn, joined = [row for row in reached if free[row]], [row for row in reached if not free[row]]
        batch += drawn
        places = self._random(now.number).permutation(len(batch))  # hides the audit
        return predicted, Batch(
            accuracy=accuracy,
            items=now.named(batch[place] for place in places),
            drawn=now.named(drawn),
            taken=now.named(taken),
            joined=now.named(joined),
        )

    def random_batch(self, now: Snapshot) -> Batch:
        """A random batch, where `step` fails."""
        rows = self._random(now.number).permutation(np.flatnonzero(now.given == OPEN))
        return Batch(items=now.named(rows[: now.batch]))

    def _random(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number])


def labeller_of(config: PileConfig, pile: Pile, store: Store, progress: "Progress") -> Labeller:
    """The labeller of a pile, with the features of class names if they are given or the network computes them.

    Raises:
        InputError: the strategy cannot label this pile: it trains a network, or there are no class names for it.
    """
    strategy, name = config.strategy.build(), config.strategy.name
    if getattr(strategy, "needs_images", False):
        raise InputError(f"strategy={name} trains the network, and only features are used here; choose another one")
    use, scale, encoder = getattr(strategy, "text", "none"), config.logit_scale, pile.encoder
    text_of: TextOf | None = None
    if use != "none" and config.text_features is not None:
        text_of = _text_of_file(config, pile)
    elif use != "none" and encoder is not None and encoder.embeds_names and config.classes is not None:
        from fsl.features.prompts import PROMPTS
        from runs.own_data.pictures import encode_names

        def of_network(classes: Sequence[str]) -> NDArray[np.floating]:
            return encode_names(classes, PROMPTS, encoder, store, progress).numpy()

        text_of, scale = of_network, encoder.logit_scale if scale is None else scale

    if use == "required" and text_of is None:
        raise InputError(
            f"strategy={name} requires class names: add --classes a,b,c, and --text-features FILE or --backbone "
            "open_clip:NAME; or choose another strategy"
        )
    return Labeller(
        pile.features, strategy, selection=config.selection, seed=config.seed, text_of=text_of, logit_scale=scale
    )


def _text_of_file(config: PileConfig, pile: Pile) -> TextOf:
    from clustering.feature_files import read_features

    given = read_features(Path(config.text_features or "").expanduser(), config.text_column, option="text_column")
    names, dimension = config.class_names(), pile.features.shape[1]
    if given.shape != (len(names), dimension):
        raise InputError(
            f"text_features: {config.text_features} has the shape {given.shape}; {len(names)} classes and "
            f"{dimension} features of the pile need ({len(names)}, {dimension})"
        )
    rows = dict(zip(names, given.astype(np.float32), strict=True))

    def text_of(classes: Sequence[str]) -> NDArray[np.floating]:
        if new := [name for name in classes if name not in rows]:
            raise InputError(
                f"text_features: {config.text_features} has no row for {', '.join(new)}, so the labels alone are used; "
                "add a row, and the name to classes, to use class names again"
            )
        return np.stack([rows[name] for name in classes])

    return text_of
