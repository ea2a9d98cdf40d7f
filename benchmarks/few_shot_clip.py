"""Few-shot accuracy on features of CLIP-like networks, with all classes of a data set in the task.

    python benchmarks/few_shot_clip.py $TRANSDUCE_DATA/vlm/whurs19_*.npz --shots 1 2 4
    python benchmarks/few_shot_clip.py $TRANSDUCE_DATA/vlm/clip_vitb32_*.npz --shots 1 2 4 8 16 --queries 1000 \\
        --strategies laplacianshot kmeans slk_means slk_ms soft_slk label_propagation bd_cspn pt_map tim_adm paddle

In each of `--draws` tasks, every class has the given number of labelled images, and all other images of the file, or
`--queries` of them, are queries. Classes with fewer than max(shots) + 1 images are left out. Files with class names are
evaluated with the strategies that use them, alone and on top of inductive ones (`refined`); other files with those that
need no class names. A cell is the mean accuracy; in brackets, the mean paired difference to the first row and half of
its 95 % interval.
"""

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import torch

from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.features.foreign import import_features
from fsl.samplers.named_classes import NamedClasses
from fsl.strategies import STRATEGIES
from fsl.strategies.refined import Refined
from fsl.strategies.stata import StatA
from fsl.strategies.transclip import TransCLIP

LEFT_OUT = ("transductive_fine_tuning",)  # needs images

NAMED = (
    "zero_shot",
    "simpleshot",
    "tip_adapter",
    "lp_plus_plus",
    "laplacianshot",
    "transclip",
    "stata",
    "text_mixture",
)


def read(path: Path) -> FeatureBank:
    """The bank of a file with class names, or of the test and validation images of a file without."""
    with np.load(path, allow_pickle=False) as file:
        if "test_features" not in file:
            return import_features(path)
        parts = [(file[f"{part}_features"], file[f"{part}_labels"]) for part in ("test", "validation")]
    features, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    names = tuple(str(label) for label in range(labels.max() + 1))
    return FeatureBank(torch.from_numpy(features.astype(np.float32)), torch.from_numpy(labels.astype(np.int64)), names)


def with_enough(bank: FeatureBank, smallest: int) -> FeatureBank:
    """The bank without classes of fewer than `smallest` images; as it is if there are class names."""
    counts = torch.bincount(bank.labels)
    if bank.text is not None or bool((counts >= smallest).all()):
        return bank
    kept = (counts >= smallest).nonzero()[:, 0]
    chosen = torch.isin(bank.labels, kept)
    labels = torch.searchsorted(kept, bank.labels[chosen])
    return FeatureBank(bank.features[chosen], labels, tuple(bank.class_names[label] for label in kept.tolist()))


def unit(name: str, **settings: object) -> object:
    """A strategy with features of unit length, where this can be set."""
    kind = STRATEGIES.load(name)
    free = {field.name for field in dataclasses.fields(kind)}
    return kind(**({"transform": "L2N"} if "transform" in free else {}), **settings)


def strategies(named: bool) -> dict[str, object]:
    if not named:
        free = [
            name
            for name in STRATEGIES.table
            if name not in LEFT_OUT and getattr(STRATEGIES.load(name), "text", "none") != "required"
        ]
        return {name: unit(name) for name in free}
    chosen: dict[str, object] = {"simpleshot without names": unit("simpleshot", text_weight=0.0)}
    chosen |= {name: unit(name) for name in NAMED}
    chosen["transclip as published"] = TransCLIP.as_published()
    chosen["transclip as published, aligned"] = TransCLIP.as_published(alignment="aligned")
    chosen["stata as published"] = StatA.as_published()
    for inductive in ("tip_adapter", "lp_plus_plus"):
        for refine in ("transclip", "stata", "laplacianshot"):
            chosen[f"{inductive} + {refine}"] = Refined(inductive=inductive, refine=refine)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--queries", type=int, help="maximum number of queries of a task; default: all other images")
    parser.add_argument("--strategies", nargs="+", help="names of rows; default: all")
    given = parser.parse_args()
    for path in given.files:
        bank = with_enough(read(path), max(given.shots) + 1)
        ways = len(bank.class_names)
        rows = strategies(bank.text is not None)
        if given.strategies:
            rows = {
                name: row for number, (name, row) in enumerate(rows.items()) if not number or name in given.strategies
            }
        cells: dict[str, list[str]] = {name: [] for name in rows}
        for shot in given.shots:
            sampler = NamedClasses(queries=given.queries or len(bank.labels), classes_min=ways, shot=shot)
            tasks = sampler.tasks(bank.labels)
            reference: np.ndarray | None = None
            for name, row in rows.items():
                accuracies = 100 * evaluate({name: row}, bank, tasks, given.draws)[name].accuracies
                cell = f"{accuracies.mean():.1f}"
                if reference is None:
                    reference = accuracies
                else:
                    gain = accuracies - reference
                    half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
                    cell += f" ({gain.mean():+.1f} ± {half:.1f})"
                cells[name].append(cell)
        print(f"\n| {path.stem}, {ways} classes |", " | ".join(f"{shot}-shot" for shot in given.shots), "|")
        print("| --- |" + " ---: |" * len(given.shots))
        for name, made in cells.items():
            print(f"| {name} |", " | ".join(made), "|", flush=True)


if __name__ == "__main__":
    main()
