"""Few-shot accuracy on features of CLIP-like networks, with all classes of a data set in the task.

    python benchmarks/few_shot_clip.py $TRANSDUCE_DATA/vlm/clip_vitb32_*.npz --shots 1 2 4 8 16 --queries 1000 \\
        --strategies laplacianshot kmeans slk_means slk_ms soft_slk label_propagation bd_cspn pt_map tim_adm paddle

In each of `--draws` tasks, every class has the given number of labelled images, and all other images of the file, or
`--queries` of them, are queries. Classes with fewer than max(shots) + 1 images are left out. A cell is the mean
accuracy; in brackets, the mean paired difference to the first row and half of its 95 % interval. With class names,
`transduce table vlm/few_shot` makes such a table.
"""

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import torch

from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.samplers.drawn import NamedClasses
from fsl.strategies import STRATEGIES


def read(path: Path, smallest: int) -> FeatureBank:
    """The test and validation images of a file, of the classes with at least so many images."""
    with np.load(path, allow_pickle=False) as file:
        parts = [(file[f"{part}_features"], file[f"{part}_labels"]) for part in ("test", "validation")]
    features, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    kept = np.flatnonzero(np.bincount(labels) >= smallest)
    chosen = np.isin(labels, kept)
    names = tuple(map(str, kept))
    labels = torch.from_numpy(np.searchsorted(kept, labels[chosen]))
    return FeatureBank(torch.from_numpy(features[chosen].astype(np.float32)), labels, names)


def unit(name: str) -> object:
    """A strategy with features of unit length, where this can be set."""
    kind = STRATEGIES.load(name)
    free = {field.name for field in dataclasses.fields(kind)}
    return kind(**({"transform": "L2N"} if "transform" in free else {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--queries", type=int, help="maximum number of queries of a task; default: all other images")
    parser.add_argument("--strategies", nargs="+", default=["laplacianshot", "slk_means", "soft_slk"])
    given = parser.parse_args()
    for path in given.files:
        bank = read(path, max(given.shots) + 1)
        ways = len(bank.class_names)
        rows = {name: unit(name) for name in ("simpleshot", *given.strategies)}
        cells: dict[str, list[str]] = {name: [] for name in rows}
        for shot in given.shots:
            sampler = NamedClasses(queries=given.queries or len(bank.labels), classes_min=ways, shot=shot)
            found = evaluate(rows, bank, sampler.tasks(bank.labels), given.draws)
            reference = 100 * np.asarray(found["simpleshot"].accuracies)
            for name, one in found.items():
                gain = 100 * np.asarray(one.accuracies) - reference
                half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
                more = f" ({gain.mean():+.1f} ± {half:.1f})" if name != "simpleshot" else ""
                cells[name].append(f"{100 * one.accuracy:.1f}{more}")
        print(f"\n| {path.stem}, {ways} classes |", " | ".join(f"{shot}-shot" for shot in given.shots), "|")
        print("| --- |" + " ---: |" * len(given.shots))
        for name, made in cells.items():
            print(f"| {name} |", " | ".join(made), "|", flush=True)


if __name__ == "__main__":
    main()
