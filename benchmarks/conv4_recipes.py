"""Trials of recipes for base training of conv4 on mini-ImageNet: SimpleShot on validation and novel classes.

A recipe is a list of settings of a training; what it does not name is as in training=mini_cpu. The network is trained
on about --images images in whole epochs and taken after the last one. SimpleShot classifies --tasks 5-way tasks with 15
queries per class, 1-shot and 5-shot. Recipes are compared on validation classes; novel classes are shown beside. With
--half, pictures have 42 pixels a side, which takes a third of the time. Short trials favour recipes that learn fast.

    python benchmarks/conv4_recipes.py --root FOLDER "crop=0.7 jitter=0 label_smoothing=0" "batch_size=64" ...
"""

import argparse
import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from machine import describe
from torch.nn import functional

from fsl.benchmarks.images import ImageSet, open_images
from fsl.benchmarks.papers import MiniImageNet
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank, extract
from fsl.machine import keep_freed_memory
from fsl.samplers.balanced import Balanced
from fsl.strategies.simpleshot import SimpleShot
from fsl.training.base import Training, load_backbone, train
from runs.config.configs import TrainConfig, parse

WARM_UP = 0.09  # share of the images in which the learning rate rises


@dataclass(frozen=True)
class Half(MiniImageNet):
    """mini-ImageNet with pictures of 42 pixels."""

    size: ClassVar[int] = 42


def halved(images: ImageSet) -> ImageSet:
    """Each pixel is the mean of 2 x 2."""
    blocks = [functional.avg_pool2d(block.float(), 2).round().byte() for block in images.images.split(1000)]
    return dataclasses.replace(images, images=torch.cat(blocks), path=None)


def training_of(recipe: str, epochs: int) -> Training:
    """The training of `key=value key=value` in this number of epochs, which is validated at its end only."""
    fixed = [f"epochs={epochs}", f"warmup={WARM_UP * epochs}", f"validate_every={epochs}", "validation_tasks=1"]
    (config,) = parse(TrainConfig, ["benchmark=mini", "backbone=conv4", "training=mini_cpu", *fixed, *recipe.split()])
    training: Training = config.training.build()
    return training


def every(images: ImageSet, step: int) -> ImageSet:
    """Every step-th image, which saves the time of the others' features."""
    return dataclasses.replace(images, images=images.images[::step], labels=images.labels[::step], path=None)


def accuracies(path: Path, splits: dict[str, ImageSet], benchmark: MiniImageNet, tasks: int) -> dict[str, list[float]]:
    """Percentages in 1-shot and 5-shot tasks of validation and novel classes."""
    backbone = load_backbone(path)
    features = {
        name: extract(backbone, images, mean=benchmark.mean, std=benchmark.std, device="cpu")
        for name, images in splits.items()
    }
    mean = features["base"].double().mean(dim=0).float()
    found: dict[str, list[float]] = {}
    for name in ("validation", "novel"):
        bank = FeatureBank(features[name], splits[name].labels, splits[name].class_names, base_mean=mean)
        sources = [Balanced(shot=shot).tasks(bank.labels) for shot in (1, 5)]
        made = [evaluate({"simpleshot": SimpleShot()}, bank, source, tasks)["simpleshot"] for source in sources]
        found[name] = [100 * float(evaluation.accuracies.mean()) for evaluation in made]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="*", default=[""], help='settings, such as "crop=0.7 jitter=0"')
    parser.add_argument("--root", required=True, help="folder of mini-ImageNet")
    parser.add_argument("--cache", type=Path, default=Path("results/cache/images"), help="folder of decoded pictures")
    parser.add_argument("--images", type=int, default=76_800)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--half", action="store_true", help="pictures of 42 pixels")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    keep_freed_memory()
    print(describe(), flush=True)
    benchmark = (Half if options.half else MiniImageNet)(root=options.root)
    splits = {
        name: open_images(MiniImageNet(root=options.root), name, options.cache)
        for name in ("base", "validation", "novel")
    }
    if options.half:
        splits = {name: halved(images) for name, images in splits.items()}
    shown = {**splits, "base": every(splits["base"], 4)}  # a quarter of the base images gives their mean
    epochs = max(1, round(options.images / len(splits["base"])))
    print("validation 1-shot, 5-shot | novel 1-shot, 5-shot | images/s | recipe", flush=True)
    for recipe in options.recipes:
        training = training_of(recipe, epochs)
        with tempfile.TemporaryDirectory() as folder:
            trained = train(
                "conv4", benchmark, splits["base"], every(splits["validation"], 4), training, options.seed, Path(folder)
            )
            found = accuracies(trained.path, shown, benchmark, options.tasks)
        numbers = " | ".join(f"{one:.2f} {five:.2f}" for one, five in found.values())
        print(f"{numbers} | {trained.images_per_second:.0f} | {recipe or 'as shipped'}", flush=True)


if __name__ == "__main__":
    main()
