"""Accuracy of strategies with class names, by the number of classes that are present.

    python benchmarks/class_names.py $TRANSDUCE_DATA/vlm/whurs19_*.npz

Each file has features of images and class names of one network. The columns are batches of 64 images from 1 to 4, 2 to
10 and all classes, and the whole set; every class is always named. A cell is the mean accuracy over tasks and half of
its 95 % interval. In the end, the largest loss against zero-shot and against the best strategy, over files and columns.
"""

import argparse
from pathlib import Path

import numpy as np

from fsl.evaluation.episodic import evaluate
from fsl.features.foreign import import_features
from fsl.samplers.batches import Batches
from fsl.samplers.named_classes import NamedClasses
from fsl.strategies import STRATEGIES
from fsl.strategies.laplacianshot import LaplacianShot

UNIT = ("kmeans", "slk_means", "soft_slk", "soft_kmeans", "paddle", "bavardage", "label_propagation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--tasks", type=int, default=60)
    given = parser.parse_args()
    strategies = {"zero_shot": STRATEGIES.load("zero_shot")()}
    for name in ("transclip", "stata"):
        kind = STRATEGIES.load(name)
        strategies |= {name: kind(), f"{name} as published": kind.as_published()}
    strategies |= {name: STRATEGIES.load(name)() for name in ("em_dirichlet", "zlap", "text_mixture", "adaptive")}
    for weight in (1.0, 3.0):
        strategies[f"laplacianshot weight={weight:g}"] = LaplacianShot(transform="L2N", weight=weight, neighbours=3)
    strategies |= {name: STRATEGIES.load(name)(transform="L2N") for name in UNIT}
    table: dict[str, list[float]] = {name: [] for name in strategies}
    for path in given.files:
        bank = import_features(path)
        ways = len(bank.class_names)
        samplers = {
            "1 to 4 of 64": (NamedClasses(classes_min=1, classes_max=min(4, ways)), given.tasks),
            "2 to 10 of 64": (NamedClasses(classes_min=2, classes_max=min(10, ways)), given.tasks),
            "all of 64": (NamedClasses(classes_min=ways), given.tasks),
            "whole set": (Batches(size=len(bank.labels)), None),
        }
        rows: dict[str, list[str]] = {name: [] for name in strategies}
        for sampler, count in samplers.values():
            for name, result in evaluate(strategies, bank, sampler.tasks(bank.labels), count).items():
                table[name].append(100 * result.accuracy)
                rows[name].append(f"{100 * result.accuracy:.1f}" + (f" ± {100 * result.ci95:.1f}" if count else ""))
        print(f"\n| {path.stem} |", " | ".join(samplers), "|")
        print("| --- |" + " ---: |" * len(samplers))
        for name, cells in rows.items():
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
    best = np.max(list(table.values()), axis=0)
    print("\n| strategy | least gain over zero-shot | largest loss against the best |")
    print("| --- | ---: | ---: |")
    for name, values in table.items():
        gain = np.array(values) - np.array(table["zero_shot"])
        print(f"| {name} | {gain.min():+.1f} | {(best - values).max():.1f} |")


if __name__ == "__main__":
    main()
