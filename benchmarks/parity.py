"""Predictions on a GPU against those on the processor, of every strategy and every estimator that takes a device.

A prediction may differ where its margin on the processor, the difference of the two highest probabilities, is below
1e-4; without probabilities, nowhere. A row has the number of predictions, how many differ, how many of these are beyond
the margin, and the largest difference of two probabilities. The exit code is 1 if any is beyond the margin.

Strategies get 5-way tasks with 1 and 5 shots, balanced and of Dirichlet proportions, and class names if they need them.
TF32 is off: its products are less precise than the margin. `--device cpu` compares one thread with two instead.

    python benchmarks/parity.py [--device cuda] [--tasks 128] [name ...]
"""

import argparse
import inspect
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from machine import describe
from setting import make_bank
from torch import Tensor
from turns import threads

import clustering.methods
import fairness.methods
from fsl.backbones import create_backbone
from fsl.features.bank import FeatureBank
from fsl.features.gathering import BankText, gathered
from fsl.features.pictures import Pictures
from fsl.samplers.drawn import Balanced, Dirichlet
from fsl.strategies import STRATEGIES
from fsl.transforms import transform_features
from fsl.weights.pretrained import Look

MARGIN = 1e-4
Side = tuple[torch.device, int]
"""A device, and the number of threads of the processor."""


class Found(NamedTuple):
    """Predicted labels (N,), and probabilities (N, K) if there are any."""

    labels: Tensor
    probabilities: Tensor | None = None


class Parity(NamedTuple):
    """Predictions; those that differ; of these, beyond the margin; largest difference of two probabilities."""

    predictions: int
    differ: int
    beyond: int
    apart: float


def compare(expected: Found, found: Found) -> Parity:
    """Compare the predictions of a device with those that are expected."""
    differ = expected.labels != found.labels
    if expected.probabilities is None or found.probabilities is None:
        return Parity(len(differ), int(differ.sum()), int(differ.sum()), 0.0)
    best = expected.probabilities.topk(2, dim=1).values
    beyond = differ & (best[:, 0] - best[:, 1] >= MARGIN)
    apart = float((expected.probabilities - found.probabilities).abs().max())
    return Parity(len(differ), int(differ.sum()), int(beyond.sum()), apart)


def few_shot(name: str, bank: FeatureBank, count: int, sides: list[Side]) -> Iterator[tuple[str, Parity]]:
    """The parity of a strategy on tasks of each sampler, with each number of shots."""
    kind = STRATEGIES.load(name)
    strategy, pictures = kind(), None
    if getattr(kind, "text", "none") == "required":
        means = torch.stack([bank.features[bank.labels == k].mean(0) for k in range(len(bank.class_names))])
        bank = replace(bank, text=means, logit_scale=20.0)
    if getattr(kind, "needs_images", False):  # it trains the network on each task
        images = np.random.default_rng(0).integers(0, 256, (len(bank.labels), 3, 16, 16), dtype=np.uint8)
        torch.manual_seed(0)
        network = create_backbone("conv4", channels=3, size=16).eval()
        pictures = Pictures(torch.from_numpy(images), network, Look(3, 16, (0.5,) * 3, (0.3,) * 3))
        count = 1
    for sampler in (Balanced, Dirichlet):
        for shot in (1, 5):
            tasks, found = sampler(shot=shot).tasks(bank.labels).first(count), []
            for device, cores in sides:
                features = transform_features(bank.features, strategy.transform, bank.base_mean).to(device)
                mean = None if bank.base_mean is None else bank.base_mean.to(device)
                with threads(cores):
                    given = gathered(features, tasks, strategy.transform, mean, pictures, BankText.of(bank, device))
                    out = strategy.predict(given)
                found.append(Found(out.labels.flatten().cpu(), out.probabilities.flatten(0, 1).float().cpu()))
            yield f"{name}, {sampler.__name__.lower()}, {shot}-shot", compare(*found)


def estimated(name: str, kind: Any, count: int, sides: list[Side]) -> Iterator[tuple[str, Parity]]:
    """The parity of an estimator on overlapping blobs, with groups if it is fair, and some labels if it takes them."""
    random = np.random.default_rng(0)
    classes = random.integers(0, 4, 8 * count)
    X = random.normal(size=(len(classes), 8)) + 3 * np.eye(4, 8)[classes]
    given: dict[str, Any] = {}
    taken = inspect.signature(kind.fit).parameters
    if "sensitive_features" in taken:
        given["sensitive_features"] = np.where(random.random(len(X)) < 0.25 + 0.15 * classes, "a", "b")
    if "partial_labels" in taken:
        given["partial_labels"] = np.where(np.arange(len(X)) % 16 == 0, classes, -1)
    settings, found = {"fairness_weight": 20.0, "n_init": 4, "steps": 100}, []
    for device, cores in sides:
        model = clustering.methods.with_known(kind(4, random_state=0, device=device.type), **settings)
        with threads(cores), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an iteration that stops at its limit
            model.fit(X, **given)
        assigned = getattr(model, "assignments_", None)
        if assigned is None and hasattr(model, "predict_proba"):
            assigned = model.predict_proba(X)
        probabilities = None if assigned is None else torch.as_tensor(np.asarray(assigned))
        found.append(Found(torch.as_tensor(np.asarray(model.labels_)), probabilities))
    yield name, compare(*found)


def main() -> int:
    tables = (clustering.methods.METHODS, fairness.methods.METHODS)
    kinds = {name: table.load(name) for table in tables for name in table.table}
    kinds = {name: kind for name, kind in kinds.items() if "device" in inspect.signature(kind).parameters}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[*STRATEGIES.table, *kinds], help="strategies and estimators")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tasks", type=int, default=128, help="of each kind; estimators get 8 points for each")
    options = parser.parse_args()
    device, cpu, cores = torch.device(options.device), torch.device("cpu"), torch.get_num_threads()
    if device.type == "cuda" and not torch.cuda.is_available():
        print("left out: there is no GPU here")
        return 0
    sides = [(cpu, cores), (device, cores)] if device.type == "cuda" else [(cpu, 1), (cpu, 2)]
    torch.backends.cudnn.allow_tf32 = False
    print(describe(), torch.cuda.get_device_name(device) if device.type == "cuda" else "one thread against two")
    print(f"{'':44} predictions  differ  beyond {MARGIN:g}  probabilities apart")
    bank, beyond = make_bank(each=100), 0
    for name in options.names:
        few = name in STRATEGIES.table
        rows = few_shot(name, bank, options.tasks, sides) if few else estimated(name, kinds[name], options.tasks, sides)
        for shown, found in rows:
            numbers = f"{found.predictions:11} {found.differ:7} {found.beyond:13} {found.apart:20.0e}"
            print(f"{shown:44} {numbers}", flush=True)
            beyond += found.beyond
    print(f"{beyond} predictions differ beyond the margin" if beyond else "no prediction differs beyond the margin")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
