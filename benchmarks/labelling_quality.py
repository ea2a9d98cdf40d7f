"""How honest and how useful the figures about a labelled pile are.

    python benchmarks/labelling_quality.py $TRANSDUCE_DATA

Prints two tables: the coverage of the estimated accuracy in sessions whose selection asks for uncertain points; and the
AUROC of suspicious labels with 5 % planted errors. `--only audit` prints one.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from fsl.extra.smoothed_ridge import SmoothedRidge
from fsl.labelling.audit import audit_order, estimated_accuracy
from fsl.labelling.suspicious import suspicious_labels
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
    """Sessions of five rounds; each asks for the least certain points, and the audit grows."""
    print("\n| pile | audit | mean accuracy | half length | covers |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (X, y) in data.items():
        classifier = TransductiveClassifier(SmoothedRidge(smoothing=0.5, penalty=0.1)).prepare(X)
        for size in (50, 200):
            covers, truth, half = np.mean([_session(classifier, X, y, size, seed) for seed in range(sessions)], axis=0)
            print(f"| {name} | {size} | {truth:.3f} | {half:.3f} | {covers:.3f} |", flush=True)


def _session(
    classifier: TransductiveClassifier, X: np.ndarray, y: np.ndarray, size: int, seed: int
) -> tuple[bool, float, float]:
    random, order = np.random.default_rng(seed), audit_order(len(y), seed)
    fitted, audited, position = np.zeros(len(y), bool), np.zeros(len(y), bool), 0
    fitted[random.permutation(len(y))[: len(y) // 20]] = True
    for turn in range(1, 5):
        while (audited & ~fitted).sum() < size * turn // 4:
            audited[order[position]] = not fitted[order[position]]
            position += 1
        classifier.fit(X, np.where(fitted, y, -1))
        if turn < 4:  # the selection does not know the audit
            top = np.partition(classifier.label_distributions_, -2, axis=1)[:, -2:]
            margin = np.where(fitted, np.inf, top[:, 1] - top[:, 0])
            fitted[np.argpartition(margin, len(y) // 20)[: len(y) // 20]] = True
            audited &= ~fitted
    right, rest = classifier.transduction_ == y, ~fitted
    found, truth = estimated_accuracy(right[audited], int(rest.sum())), float(right[rest].mean())
    return found.low - 1e-9 <= truth <= found.high + 1e-9, truth, (found.high - found.low) / 2


def suspicious(data: dict[str, Pile], draws: int) -> None:
    print("\n| pile | labelled | AUROC, at random | similar class | found at p > .5 | of these wrong |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (X, y) in data.items():
        means = np.stack([X[y == k].mean(axis=0) for k in range(y.max() + 1)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        classifier = TransductiveClassifier().prepare(X)
        similar = (means @ means.T - 9 * np.eye(len(means))).argmax(axis=1)
        for share in (2, 4):
            auroc: dict[bool, list[float]] = {True: [], False: []}
            found, precise = [], []
            for seed in range(draws):
                for near_class in (False, True):
                    random = np.random.default_rng(seed)
                    points = random.permutation(len(y))[: len(y) // share]
                    wrong = points[: round(0.05 * len(points))]
                    labels = np.full(len(y), -1)
                    labels[points] = y[points]
                    shifted = (y[wrong] + random.integers(1, len(means), len(wrong))) % len(means)
                    labels[wrong] = similar[y[wrong]] if near_class else shifted
                    result = suspicious_labels(classifier.fit(X, labels))
                    truth = np.isin(result.points, wrong)
                    auroc[near_class].append(float(roc_auc_score(truth, result.probability)))
                    if not near_class:
                        marked = result.probability > 0.5
                        found.append(truth[marked].sum() / truth.sum())
                        precise.append(truth[marked].mean())
            cells = [np.mean(v) for v in (auroc[False], auroc[True], found, precise)]
            print(f"| {name} | 1/{share} |", " | ".join(f"{cell:.3f}" for cell in cells), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=["audit", "suspicious"])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=200, help="of the audit, for each pile and size")
    given = parser.parse_args()
    data = piles(given.folder)
    tables = {
        "audit": (audit, given.sessions),
        "suspicious": (suspicious, given.draws),
    }
    for part in [given.only] if given.only else tables:
        table, draws = tables[part]
        table(data, draws)


if __name__ == "__main__":
    main()
