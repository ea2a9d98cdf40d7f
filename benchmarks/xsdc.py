"""XSDC by the number of labels, as the paper has it: python benchmarks/xsdc.py mnist --labels 50 100 500 --steps 400

Ridge accuracy on the test part of the features of an untrained network, after supervised steps (the paper's baseline),
and after steps on all points, at the best of the evaluations on the validation part and at the last; each by a ridge
regression on true and 1-NN labels, as the paper does, and on the true labels alone. Penalties are chosen on the
validation part: of MNIST 2,000 of the paper's 10,000 images, of MAGIC a fifth of the training part. 1-NN labels are of
5,000 points. The data are in the folder TRANSDUCE_DATA; step sizes are those of configs/experiment/xsdc_mnist.yaml and
xsdc_magic.yaml.
"""

import argparse
import json
import os
import time
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from clustering.constraints import constraints
from clustering.datasets.dataset import Dataset
from clustering.datasets.mnist import MNIST
from clustering.datasets.paper_files import MAGIC
from clustering.deep.xsdc.assignments import nearest_labels
from clustering.deep.xsdc.discriminative import feature_scale, ridge
from clustering.deep.xsdc.networks import KernelMap, lenet5_kernel_network
from clustering.deep.xsdc.training import Reversal
from clustering.evaluation.known_labels import labels_of_some
from clustering.foundation.streams import stream
from runs.config import groups

PENALTIES = 2.0 ** np.arange(-40, 1)
BATCH = 1024  # points of either kind; the paper has 4096 for MAGIC


class Parts(NamedTuple):
    """Inputs and labels for training, for choosing, and for the result."""

    train: tuple[torch.Tensor, NDArray[np.int64]]
    validation: tuple[torch.Tensor, NDArray[np.int64]]
    test: tuple[torch.Tensor, NDArray[np.int64]]


def labelled(data: Dataset) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    assert data.labels is not None
    return np.asarray(data.values), data.labels


def mnist(folder: Path, seed: int) -> Parts:
    values, labels = labelled(MNIST(str(folder)).read())
    images = torch.from_numpy((values - np.float32(0.1307)) / np.float32(0.3081)).view(-1, 1, 28, 28)
    order = stream(seed, "validation").permutation(60_000)
    train, validation = order[:50_000], order[50_000:52_000]
    return Parts(*((images[rows], labels[rows]) for rows in (train, validation, np.arange(60_000, 70_000))))


def magic(folder: Path, seed: int) -> Parts:
    """Stratified 75/25, surplus gammas dropped in both, standardised by the former, 20 % of it for validation."""
    single, labels = labelled(MAGIC(str(folder), balanced=False).read())
    values = single.astype(np.float64)
    parts = train_test_split(np.arange(len(labels)), test_size=0.25, stratify=labels, random_state=seed)
    balanced = []
    for rows in parts:
        fewer = int(min(np.bincount(labels[rows])))
        balanced.append(np.concatenate([rows[labels[rows] == each][:fewer] for each in (0, 1)]))
    mean, spread = values[balanced[0]].mean(axis=0), values[balanced[0]].std(axis=0)
    scaled = torch.from_numpy((values - mean) / spread)
    order = stream(seed, "validation").permutation(balanced[0])
    cut = len(order) // 5
    return Parts(*((scaled[rows], labels[rows]) for rows in (order[cut:], order[:cut], balanced[1])))


def step_sizes(data: str, count: int) -> tuple[float, float]:
    """Of supervised steps and of steps on all points, as the authors selected them at so many labels."""
    lines = groups.experiment(f"xsdc_{data}")["each"]
    (line,) = (line for line in lines if line["labels"] == count)
    return line["supervised_step_size"], line["step_size"]


class Scores(NamedTuple):
    """Accuracies at the penalty that is best on the validation part."""

    validation: float
    test: float
    penalty: float


def score(training: Reversal, parts: Parts, others: NDArray[np.int64]) -> tuple[Scores, Scores]:
    """By 1-NN labels of `others` and the true ones, and by the true ones alone."""
    scale = feature_scale(training.raw_features(training.inputs[training.labelled]))
    known = training.features(training.inputs[training.labelled], scale)
    rest = training.features(training.inputs[others], scale)
    labels = training.known.labels[training.labelled]
    guessed = nearest_labels(rest.numpy(), known.numpy(), labels)
    judged = [training.features(part[0], scale) for part in (parts.validation, parts.test)]

    def best(features: torch.Tensor, classes: NDArray[np.int64]) -> Scores:
        targets = torch.nn.functional.one_hot(torch.from_numpy(classes), training.clusters)
        found = []
        for penalty in PENALTIES:
            model = ridge(features, targets, float(penalty))
            right = [
                float((model.scores(some).argmax(1).numpy() == part[1]).mean())
                for some, part in zip(judged, (parts.validation, parts.test), strict=True)
            ]
            found.append(Scores(*right, float(penalty)))
        return max(found, key=lambda one: (one.validation, one.penalty))

    return best(torch.cat([known, rest]), np.concatenate([labels, guessed])), best(known, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", choices=["mnist", "magic"])
    parser.add_argument("--labels", type=int, nargs="+", choices=[50, 100, 500], default=[50, 100, 500])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--penalty", type=float, help="log2 of that in training, if not chosen")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = Path(os.environ.get("TRANSDUCE_DATA", ".")) / "clustering"
    torch.set_num_threads(1)
    for labels in options.labels:
        for seed in options.seeds:
            fixed = None if options.penalty is None else 2.0**options.penalty
            found = run(options.data, folder, labels, seed, options.steps, options.every, fixed)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(found) + "\n")


def run(data: str, folder: Path, count: int, seed: int, steps: int, every: int, fixed: float | None) -> dict[str, Any]:
    parts = (mnist if data == "mnist" else magic)(folder, seed)
    inputs, labels = parts.train
    clusters = int(labels.max()) + 1
    dtype = torch.float32 if data == "mnist" else torch.float64
    network: Any = lenet5_kernel_network() if data == "mnist" else KernelMap(10, unit_landmarks=True).double()
    network.begin(inputs.to(dtype), stream(seed, "network"))
    known = constraints(len(inputs), labels=labels_of_some(labels, count, seed))
    training = Reversal(network, inputs.to(dtype), known, clusters, 1 / clusters, 1 / clusters)
    sample = training.others[:5000]
    curve: list[dict[str, Any]] = []
    began = time.perf_counter()

    def evaluate(phase: str, step: int) -> float:
        paper, alone = score(training, parts, sample)
        row = {"phase": phase, "step": step, "seconds": time.perf_counter() - began}
        row |= {"validation": paper.validation, "test": paper.test, "penalty": paper.penalty}
        row |= {"labels_only_validation": alone.validation, "labels_only_test": alone.test}
        curve.append(row)
        print(
            f"{data} {count} labels, seed {seed}, {phase} {step}: {paper.test:.3f} (validation {paper.validation:.3f}, "
            f"penalty 2^{np.log2(paper.penalty):.0f}), labels alone {alone.test:.3f}, {row['seconds']:.0f} s",
            flush=True,
        )
        # Supervised steps see labelled points alone, and so does what their penalty is chosen by.
        if fixed is not None:
            return fixed
        return alone.penalty if phase == "untrained" else paper.penalty

    first, then = step_sizes(data, count)
    decay = 0.0 if data == "mnist" else 2.0**-4
    penalty = evaluate("untrained", 0)
    generator = stream(seed, "batches")
    for _ in islice(training.supervised(penalty, network.optimizer(first, decay), BATCH, generator), 100):
        pass
    penalty = evaluate("supervised", 100)
    optimizer = network.optimizer(then, decay)
    for step in range(every, steps + 1, every):
        for _ in islice(training.assigned(penalty, optimizer, BATCH, generator), every):
            pass
        chosen = evaluate("all points", step)
        if step % 100 == 0:
            penalty = chosen
    after = [row for row in curve if row["phase"] != "untrained"]
    best = max(after, key=lambda row: row["validation"])
    return {"data": data, "labels": count, "seed": seed, "best": best, "curve": curve}


if __name__ == "__main__":
    main()
