"""Time and memory of labelling a large pile: the first fit, a fit after a batch of labels, and the next batch.

    python benchmarks/label_scale.py --points 12500 25000 50000 100000

Each row is a process of its own, on random points of 512 dimensions around 200 centres, four for each of 50 classes.
"memory" is the peak beside the features.
"""

import argparse
import subprocess
import sys
import time
from typing import get_args

import numpy as np
from class_names_scale import peak
from numpy.typing import NDArray

from fsl.labelling.selection import Selection, next_to_label
from fsl.transductive_classifier import TransductiveClassifier


def draw(points: int, dimension: int, classes: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(4 * classes, dimension)).astype(np.float32)
    places = generator.integers(0, len(centres), points)
    rows = generator.standard_normal((points, dimension), dtype=np.float32)
    rows *= 1.5
    for start in range(0, points, 1024):
        rows[start : start + 1024] += centres[places[start : start + 1024]]
    return rows, places % classes


def measure(points: int, dimension: int, classes: int) -> str:
    rows, truth = draw(points, dimension, classes)
    order = np.random.default_rng(1).permutation(points)
    known = np.full(points, -1)
    known[order[:500]] = truth[order[:500]]
    before = peak()
    started = time.perf_counter()
    classifier = TransductiveClassifier().fit(rows, known)
    seconds = [time.perf_counter() - started]
    accuracy = (classifier.transduction_ == truth).mean()
    known[order[500:600]] = truth[order[500:600]]
    started = time.perf_counter()
    classifier.fit(rows, known)
    seconds.append(time.perf_counter() - started)
    for method in get_args(Selection):
        started = time.perf_counter()
        next_to_label(classifier, 100, method=method)
        seconds.append(time.perf_counter() - started)
    times = " | ".join(f"{value:.2f}" for value in seconds)
    return f"| {points} | {times} | {peak() - before:.2f} | {100 * accuracy:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[12_500, 25_000, 50_000, 100_000])
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--classes", type=int, default=50)
    args = parser.parse_args()
    if len(args.points) == 1:
        print(measure(args.points[0], args.dimension, args.classes))
        return
    names = ["points", "fit (s)", "again (s)", *(f"{name} (s)" for name in get_args(Selection))]
    print("| " + " | ".join([*names, "memory (GiB)", "accuracy (%)"]) + " |\n" + "| --- " * (len(names) + 2) + "|")
    for points in args.points:
        own = [sys.executable, __file__, "--points", str(points), "--dimension", str(args.dimension)]
        print(
            subprocess.run([*own, "--classes", str(args.classes)], check=True, capture_output=True, text=True).stdout,
            end="",
        )


if __name__ == "__main__":
    main()
