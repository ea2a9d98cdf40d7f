"""Short trials of recipes for base training of conv4 on mini-ImageNet: SimpleShot on validation and novel classes.

Each recipe is a list of settings of `fsl.training.settings.Training`; what it does not name is as in the first recipe
below. A recipe is trained on about --images images in whole epochs, the network of the last epoch is taken, and
SimpleShot (CL2N) classifies --tasks 5-way tasks with 1 and 5 images per class and 15 queries. A recipe is chosen by its
validation classes; the accuracy on novel classes is printed beside. Trials of a twentieth of the images favour recipes
that learn fast, so the best ones should be compared once more on more images.

    python benchmarks/conv4_recipes.py --root FOLDER "crop=0.7 jitter=0 label_smoothing=0" "batch_size=64" ...
"""

import argparse
import dataclasses
import tempfile
from pathlib import Path

import yaml
from machine import describe

from fsl.benchmarks.images import ImageSet, open_images
from fsl.benchmarks.mini import MiniImageNet
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank, extract
from fsl.samplers.balanced import Balanced
from fsl.strategies.simpleshot import SimpleShot
from fsl.training.base import Training, load_backbone, train
from fsl.training.machine import keep_freed_memory

SHIPPED = {"batch_size": 128, "learning_rate": 0.2, "schedule": "one_cycle", "milestones": ()}
WARM_UP = 0.09  # share of the images in which the learning rate rises


def settings(recipe: str) -> dict[str, object]:
    """The values of `key=value key=value`."""
    return {key: yaml.safe_load(value) for key, _, value in (item.partition("=") for item in recipe.split())}


def every(images: ImageSet, step: int) -> ImageSet:
    """Every step-th image, which saves the time of the others' features."""
    return dataclasses.replace(images, images=images.images[::step], labels=images.labels[::step], path=None)


def accuracies(path: Path, splits: dict[str, ImageSet], benchmark: MiniImageNet, tasks: int) -> dict[str, list[float]]:
    """Percentages in 1-shot and 5-shot tasks of validation and novel classes."""
    backbone = load_backbone(path)
    features = {name: extract(backbone, images, mean=benchmark.mean, std=benchmark.std, device="cpu")
                for name, images in splits.items()}
    mean = features["base"].double().mean(dim=0).float()
    found = {}
    for name in ("validation", "novel"):
        bank = FeatureBank(features[name], splits[name].labels, splits[name].class_names, base_mean=mean)
        found[name] = [
            100 * float(evaluate({"s": SimpleShot(transform="CL2N")}, bank,
                                 Balanced(shot=shot).tasks(bank.labels, 0), tasks)["s"].accuracies.mean())
            for shot in (1, 5)
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="*", default=[""], help='settings, such as "crop=0.7 jitter=0"')
    parser.add_argument("--root", required=True, help="folder of mini-ImageNet")
    parser.add_argument("--cache", type=Path, default=Path("results/cache/images"), help="folder of decoded pictures")
    parser.add_argument("--images", type=int, default=76_800)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    keep_freed_memory()
    print(describe(), flush=True)
    benchmark = MiniImageNet(root=options.root)
    splits = {name: open_images(benchmark, name, options.cache) for name in ("base", "validation", "novel")}
    some = {name: every(images, 10 if name == "base" else 3) for name, images in splits.items()}
    epochs = max(1, round(options.images / len(splits["base"])))
    print("validation 1-shot, 5-shot | novel 1-shot, 5-shot | images/s | recipe", flush=True)
    for recipe in options.recipes:
        values = {**SHIPPED, "warmup": WARM_UP * epochs, **settings(recipe)}
        training = Training(**values, epochs=epochs, validate_every=epochs, validation_tasks=1)
        with tempfile.TemporaryDirectory() as folder:
            trained = train(
                "conv4", benchmark, splits["base"], some["validation"], training, options.seed, Path(folder)
            )
            found = accuracies(trained.path, some, benchmark, options.tasks)
        numbers = " | ".join(f"{one:.2f} {five:.2f}" for one, five in found.values())
        print(f"{numbers} | {trained.images_per_second:.0f} | {recipe or 'as shipped'}", flush=True)


if __name__ == "__main__":
    main()
