"""How many labels a pile needs: labels until a method has 80, 90 or 95 % of the accuracy that all labels give.

    python benchmarks/labels_needed.py $TRANSDUCE_DATA --draws 10
    python benchmarks/labels_needed.py $TRANSDUCE_DATA --sets dtd --methods smoothed_ridge linear_probe \\
        --selections variance random --draws 3

A pile is a random nine tenths of a data set (`--largest` points at most). Labels are asked in batches: first half as
many as there are classes, at least eight, then a quarter of the labels given so far. After each batch the method
classifies the unlabelled rest of the pile, and its accuracy is measured there. A class is unknown until one of its
points is labelled. "All labels" is the better of a 5-nearest-neighbour classifier and a linear probe (logistic
regression) on the whole data set, by five-fold cross-validation.

The table has the mean number of labels over the draws, and in brackets its ratio to the linear probe on labels at
random. A level that was not reached with 60 % of the labels counts as the whole pile, marked >. The curves are drawn by
labels_needed_figure.py.

The set mnist_learned has features that entropy clustering learned from 70,000 pictures without labels; it needs
`--learned FILE`, the file of features that this command names:

    transduce cluster experiment=entropy_mnist seed=0 root=$TRANSDUCE_DATA/clustering
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading

from clustering.datasets.features import Features
from clustering.datasets.mnist import MNIST
from clustering.datasets.paper_files import R8, USPS
from fsl.labelling.selection import Selection, next_to_label
from fsl.strategies.slk import SLKMS
from fsl.transductive_classifier import TransductiveClassifier

LEVELS = (0.8, 0.9, 0.95)
TRANSDUCTIVE = ("smoothed_ridge", "simpleshot", "laplacianshot", "slk_ms", "paddle")
METHODS = (*TRANSDUCTIVE, "label_spreading", "linear_probe")
SETS = ("caltech101", "dtd", "ucf101", "whurs19", "whurs19_names", "mnist", "usps", "r8", "mnist_learned")
Points = tuple[NDArray[np.float32], NDArray[np.int64]]


def load(name: str, root: Path, learned: str | None) -> tuple[Points, dict[str, Any]]:
    """Unit features and labels of a data set, and the class names if the set has them."""
    names: dict[str, Any] = {}
    if name.startswith("whurs19"):
        with np.load(root / "vlm/whurs19_clip_vitb32.npz") as file:
            points, labels = file["images"], file["labels"]
            if name == "whurs19_names":
                names = {"class_names": [str(i).zfill(2) for i in range(len(file["text"]))], "text": file["text"]}
    elif name in ("caltech101", "dtd", "ucf101"):
        with np.load(root / f"vlm/clip_vitb32_{name}.npz") as file:
            points, labels = file["test_features"], file["test_labels"]
    elif name == "r8":
        data = R8(str(root / "clustering")).read()
        points, labels = TruncatedSVD(128, random_state=0).fit_transform(data.values), data.labels
    elif name == "mnist_learned":
        data = Features(learned).read()
        points, labels = data.values[-10_000:], data.labels[-10_000:]
    else:
        data = {"mnist": MNIST, "usps": USPS}[name](str(root / "clustering")).read()
        points, labels = data.values[-10_000:], data.labels[-10_000:]
    points = np.asarray(points, dtype=np.float32)
    return (points / np.linalg.norm(points, axis=1, keepdims=True), np.asarray(labels, dtype=np.int64)), names


def of_all_labels(points: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Accuracy of the better of 5-nearest neighbours and a linear probe, by cross-validation."""
    models = (KNeighborsClassifier(5), probe())
    return max(float((cross_val_predict(model, points, labels, cv=5) == labels).mean()) for model in models)


def probe() -> LogisticRegression:
    return LogisticRegression(C=10, max_iter=300)


class Ours:
    """A transductive strategy, asked by a selection."""

    def __init__(self, strategy: str, names: dict[str, Any]) -> None:
        chosen = SLKMS(shift=False) if strategy == "slk_ms" else strategy
        self.classifier, self.names = TransductiveClassifier(chosen), names

    def classify(self, points: NDArray[np.float32], known: NDArray[np.int64]) -> NDArray[np.int64]:
        labels: Any = known
        if self.names:
            labels = np.where(known >= 0, np.char.zfill(known.astype(str), 2), "")
        return np.asarray(self.classifier.fit(points, labels, **self.names).transduction_).astype(np.int64)


def rival(name: str) -> Callable[[NDArray[np.float32], NDArray[np.int64]], tuple[NDArray[np.int64], Any, Any]]:
    """Predictions, probabilities and classes of a method of scikit-learn."""

    def classify(points: NDArray[np.float32], known: NDArray[np.int64]) -> tuple[NDArray[np.int64], Any, Any]:
        given = known >= 0
        if len(np.unique(known[given])) < 2:
            return np.full(len(points), known[given][0]), None, None
        if name == "label_spreading":
            model = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=100).fit(points, known)
            return model.transduction_, model.label_distributions_, model.classes_
        model = probe().fit(points[given], known[given])
        return model.predict(points), model.predict_proba(points), model.classes_

    return classify


def curve(method: str, selection: Selection, pile: Points, names: dict[str, Any], seed: int, stop: float) -> list[Any]:
    """[(labels, accuracy on the rest)] until the accuracy is `stop`, or 60 % of the points are labelled."""
    points, labels = pile
    asked = TransductiveClassifier().prepare(points)  # chooses the points also for the methods of scikit-learn
    ours = Ours(method, names) if method in TRANSDUCTIVE else None
    if ours is not None:
        ours.classifier.prepare(points)
        ours.classifier._prepared = asked._prepared
        asked = ours.classifier
    known, found, batch = np.full(len(points), -1), [], max(8, len(np.unique(labels)) // 2)
    while True:
        chosen = next_to_label(asked, batch, method=selection, random_state=seed + len(found))
        known[chosen] = labels[chosen]
        if ours is not None:
            predicted = ours.classify(points, known)
        else:
            predicted, probabilities, classes = rival(method)(points, known)
            asked.labelled_ = np.flatnonzero(known >= 0)
            if probabilities is not None:
                asked.label_distributions_, asked.classes_ = np.nan_to_num(probabilities), classes
        rest = known < 0
        found.append((int((~rest).sum()), float((predicted[rest] == labels[rest]).mean())))
        if found[-1][1] >= stop or rest.mean() < 0.4:
            return found
        batch = max(4, int((~rest).sum()) // 4)


def needed(points: list[Any], level: float) -> float:
    """The first number of labels with this accuracy; infinite if it was not reached."""
    return float(next((labels for labels, accuracy in points if accuracy >= level), np.inf))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="folder with vlm/ and clustering/")
    parser.add_argument("--sets", nargs="+", default=SETS[:-1], choices=SETS)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--selections", nargs="+", default=get_args(Selection), choices=get_args(Selection))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--largest", type=int, default=5000)
    parser.add_argument("--learned", help="file of features for the set mnist_learned")
    parser.add_argument("--curves", type=Path, help="JSON-lines file to which the curves are appended")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")  # few labels per class, and iterations of logistic regression
    for name in args.sets:
        (points, labels), names = load(name, args.root, args.learned)
        if len(points) > args.largest:
            kept = np.random.default_rng(0).permutation(len(points))[: args.largest]
            points, labels = points[kept], labels[kept]
        reference = of_all_labels(points, labels)
        print(f"\n{name}: {len(points)} points, {len(np.unique(labels))} classes, all labels {100 * reference:.1f} %")
        print("\n| method | selection | " + " | ".join(f"{100 * level:.0f} %" for level in LEVELS) + " |")
        print("| --- | --- |" + " --- |" * len(LEVELS), flush=True)
        base: NDArray[np.float64] | None = None
        pairs = [(method, selection) for method in args.methods for selection in args.selections]
        first = ("linear_probe", "random")
        for method, selection in sorted({*pairs, first}, key=lambda pair: (pair != first, [*pairs, first].index(pair))):
            rows = []
            for draw in range(args.draws):
                part = np.random.default_rng([draw, 1]).permutation(len(points))[: round(0.9 * len(points))]
                pile = points[part], labels[part]
                found = curve(method, selection, pile, names, 1000 * draw, LEVELS[-1] * reference)
                rows.append([min(needed(found, level * reference), len(part)) for level in LEVELS])
                if args.curves:
                    entry = {"set": name, "method": method, "selection": selection, "draw": draw, "all": reference}
                    with args.curves.open("a") as file:
                        file.write(json.dumps(entry | {"curve": found}) + "\n")
            means = np.mean(rows, axis=0)
            base = means if base is None else base
            missed = np.max(rows, axis=0) >= round(0.9 * len(points))
            cells = [
                f"{'>' * bool(miss)}{mean:.0f} ({mean / one:.2f})"
                for mean, one, miss in zip(means, base, missed, strict=True)
            ]
            print(f"| {method} | {selection} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
