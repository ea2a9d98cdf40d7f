"""How honest and how useful the figures about a labelled pile are.

    python benchmarks/labelling_quality.py $TRANSDUCE_DATA

Prints five tables: the coverage of the estimated accuracy in sessions whose selection asks for uncertain points; the
AUROC of suspicious labels with 5 % planted errors; that of points of held-out classes; the log loss with and without a
temperature; and the coverage and size of prediction sets with class names. `--only audit` prints one of them.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from fsl.episodes import Episodes
from fsl.extra.smoothed_ridge import SmoothedRidge
from fsl.features.foreign import import_features
from fsl.labelling.audit import audit_order, estimated_accuracy
from fsl.labelling.calibration import at_temperature, fit_temperature
from fsl.labelling.prediction_sets import predict_set
from fsl.labelling.suspicious import suspicious_labels
from fsl.labelling.unknown import none_of_these
from fsl.strategies import STRATEGIES
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.transductive_classifier import TransductiveClassifier

Pile = tuple[np.ndarray, np.ndarray]
NETWORK = "clip_vitb32"


def piles(folder: Path) -> dict[str, Pile]:
    """Unit features and labels of each data set."""
    found: dict[str, tuple[Any, Any]] = {}
    for name in ("caltech101", "dtd", "ucf101"):
        stored = np.load(folder / "vlm" / f"{NETWORK}_{name}.npz")
        found[name] = stored["test_features"], stored["test_labels"]
    stored = np.load(folder / "clustering" / "mnist.npz")
    found["MNIST, test part"] = stored["x_test"].reshape(10_000, -1), stored["y_test"]
    stored = np.load(folder / "vlm" / f"whurs19_{NETWORK}.npz")
    found["WHU-RS19"] = stored["images"], stored["labels"]
    result = {}
    for name, (X, y) in found.items():
        X = X.astype(np.float32) / np.linalg.norm(X.astype(np.float32), axis=1, keepdims=True)
        result[name] = X, np.unique(y, return_inverse=True)[1]
    return result


def audit(data: dict[str, Pile], sessions: int) -> None:
    """Sessions of five rounds of ridge regression; each round asks for the least certain points, and the audit grows.

    The last column is the mistake to avoid: a selection that leaves out the points of the audit.
    """
    print("\n| pile | audit | mean accuracy | half length | covers | selection knows the audit |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (X, y) in data.items():
        classifier = TransductiveClassifier(SmoothedRidge(smoothing=0.5, penalty=0.1)).prepare(X)
        for size in (50, 200):
            rows = {
                blind: [_session(classifier, X, y, size, seed, blind) for seed in range(sessions)]
                for blind in (True, False)
            }
            covers, truth, half = np.mean(rows[True], axis=0)
            print(
                f"| {name} | {size} | {truth:.3f} | {half:.3f} | {covers:.3f} | {np.mean(rows[False], 0)[0]:.3f} |",
                flush=True,
            )


def _session(
    classifier: TransductiveClassifier, X: np.ndarray, y: np.ndarray, size: int, seed: int, blind: bool
) -> tuple[bool, float, float]:
    random, order = np.random.default_rng(seed), audit_order(len(y), seed)
    fitted, audited, position = np.zeros(len(y), bool), np.zeros(len(y), bool), 0
    fitted[random.permutation(len(y))[: len(y) // 20]] = True
    for turn in range(1, 5):
        while (audited & ~fitted).sum() < size * turn // 4:
            audited[order[position]] = not fitted[order[position]]
            position += 1
        classifier.fit(X, np.where(fitted, y, -1))
        predicted, scores = classifier.transduction_, classifier.label_distributions_
        if turn < 4:
            top = np.partition(scores, -2, axis=1)[:, -2:]
            margin = np.where(fitted | (audited & (not blind)), np.inf, top[:, 1] - top[:, 0])
            fitted[np.argpartition(margin, len(y) // 20)[: len(y) // 20]] = True
            audited &= ~fitted
    right = predicted == y
    rest = ~fitted
    found = estimated_accuracy(right[audited], int(rest.sum()))
    truth = float(right[rest].mean())
    return found.low - 1e-9 <= truth <= found.high + 1e-9, truth, (found.high - found.low) / 2


def suspicious(data: dict[str, Pile], draws: int) -> None:
    print("\n| pile | labelled | AUROC, at random | similar class | found at p > .5 | of these wrong | seconds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, (X, y) in data.items():
        means = np.stack([X[y == k].mean(axis=0) for k in range(y.max() + 1)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        classifier = TransductiveClassifier().prepare(X)
        similar = (means @ means.T - 9 * np.eye(len(means))).argmax(axis=1)
        for share in (2, 4):
            auroc: dict[bool, list[float]] = {True: [], False: []}
            found, precise, seconds = [], [], []
            for seed in range(draws):
                for near_class in (False, True):
                    random = np.random.default_rng(seed)
                    points = random.permutation(len(y))[: len(y) // share]
                    wrong = points[: round(0.05 * len(points))]
                    labels = np.full(len(y), -1)
                    labels[points] = y[points]
                    shifted = (y[wrong] + random.integers(1, len(means), len(wrong))) % len(means)
                    labels[wrong] = similar[y[wrong]] if near_class else shifted
                    start = time.perf_counter()
                    result = suspicious_labels(classifier.fit(X, labels))
                    seconds.append(time.perf_counter() - start)
                    truth = np.isin(result.points, wrong)
                    auroc[near_class].append(float(roc_auc_score(truth, result.probability)))
                    if not near_class:
                        marked = result.probability > 0.5
                        found.append(truth[marked].sum() / truth.sum())
                        precise.append(truth[marked].mean())
            cells = [np.mean(v) for v in (auroc[False], auroc[True], found, precise, seconds)]
            print(f"| {name} | 1/{share} |", " | ".join(f"{cell:.3f}" for cell in cells), "|", flush=True)


def unknown(data: dict[str, Pile], draws: int) -> None:
    """A fifth of the classes held out; the AUROC, and the differences paired over draws with twice their errors."""
    print("\n| pile | labels a class | AUROC | minus maximum probability | minus distance | true share | estimated |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, (X, y) in data.items():
        classifier = TransductiveClassifier().prepare(X)
        plain = TransductiveClassifier(SmoothedRidge(smoothing=0.0, penalty=0.3)).prepare(X)
        for shots in (5, 20):
            rows = []
            for seed in range(draws):
                random = np.random.default_rng(seed)
                held = random.permutation(y.max() + 1)[: round((y.max() + 1) / 5)]
                labels = np.full(len(y), -1)
                for k in np.setdiff1d(np.arange(y.max() + 1), held):
                    own = random.permutation(np.flatnonzero(y == k))
                    labels[own[: min(shots, max(1, len(own) // 2))]] = k
                result = none_of_these(classifier.fit(X, labels))
                known, outside = labels >= 0, np.isin(y[result.points], held)
                top = plain.fit(X, labels).label_distributions_[result.points].max(axis=1)
                ours = roc_auc_score(outside, -result.inlier)
                others = [roc_auc_score(outside, -s) for s in (top, (X[result.points] @ X[known].T).max(axis=1))]
                rows.append([ours, ours - others[0], ours - others[1], outside.mean(), result.share])
            mean, error = np.mean(rows, axis=0), 2 * np.std(rows, axis=0, ddof=1) / np.sqrt(draws)
            differences = " | ".join(f"{mean[i]:+.3f} ± {error[i]:.3f}" for i in (1, 2))
            print(f"| {name} | {shots} | {mean[0]:.3f} | {differences} | {mean[3]:.2f} | {mean[4]:.2f} |", flush=True)


def calibration(data: dict[str, Pile], draws: int) -> None:
    print("\n| pile | accuracy | log loss | with temperature (leave-one-out) | temperature |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (X, y) in data.items():
        classifier, rows = TransductiveClassifier().prepare(X), []
        for seed in range(draws):
            known = np.zeros(len(y), bool)
            known[np.random.default_rng(seed).permutation(len(y))[: len(y) // 4]] = True
            classes, own = np.unique(y[known], return_inverse=True)
            p = classifier.fit(X, np.where(known, y, -1)).label_distributions_[~known]
            T = fit_temperature(classifier.left_out_distributions(), own)
            listed = np.isin(y[~known], classes)
            at = np.flatnonzero(listed), np.searchsorted(classes, y[~known][listed])
            rows.append(
                [np.mean(classes[p.argmax(1)] == y[~known])]
                + [-np.log(q[at]).mean() for q in (p, at_temperature(p, T))]
                + [T]
            )
        print(f"| {name} |", " | ".join(f"{cell:.3f}" for cell in np.mean(rows, axis=0)), "|", flush=True)


def sets(folder: Path, splits: int) -> None:
    bank = import_features(folder / "vlm" / f"whurs19_{NETWORK}.npz")
    X, y = torch.as_tensor(bank.features), np.asarray(bank.labels)
    given = {"text": torch.as_tensor(bank.text)[None], "logit_scale": bank.logit_scale, "base_mean": bank.base_mean}
    episodes = Episodes(X.new_zeros(1, 0, X.shape[1]), torch.zeros(1, 0, dtype=torch.int64), X[None], way=19, **given)
    transclip = STRATEGIES.load("transclip")
    strategies = {
        "zero_shot": STRATEGIES.load("zero_shot")(),
        "laplacianshot": LaplacianShot(transform="L2N", weight=1.0, neighbours=3),
        "transclip as published": transclip.as_published(),
        "transclip": transclip(),
    }
    print("\n| strategy | accuracy | score | coverage | mean size | coverage by class | mean size |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for name, strategy in strategies.items():
        p = strategy.predict(episodes).probabilities[0].numpy()
        for score in ("lac", "aps", "raps"):
            rows = []
            for seed in range(splits):
                order = np.random.default_rng(seed).permutation(len(y))
                known, rest = order[:201], order[201:]
                both = [
                    predict_set(p[known], y[known], p[rest], score=score, by_class=by_class, seed=seed)
                    for by_class in (False, True)
                ]
                rows.append([value for found in both for value in (found.coverage(y[rest]), found.mean_size)])
            cells = " | ".join(f"{value:.3f}" for value in np.mean(rows, axis=0))
            print(f"| {name} | {(p.argmax(1) == y).mean():.3f} | {score} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=["audit", "suspicious", "unknown", "calibration", "sets"])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=200, help="of the audit, for each pile and size")
    given = parser.parse_args()
    parts = [given.only] if given.only else ["audit", "suspicious", "unknown", "calibration", "sets"]
    data = piles(given.folder) if parts != ["sets"] else {}
    for part in parts:
        if part == "sets":
            sets(given.folder, 1000)
        elif part == "audit":
            audit(data, given.sessions)
        else:
            {"suspicious": suspicious, "unknown": unknown, "calibration": calibration}[part](data, given.draws)


if __name__ == "__main__":
    main()
