"""XSDC as it is set by default, by the number of labels: python benchmarks/xsdc_labels.py mnist --labels 50 100 500

Of MNIST method=xsdc_lenet5, of MAGIC method=xsdc with representation=kernel, of scikit-learn's digits method=xsdc in
batches of 512. Accuracy of all points whose class is not known, seed by seed, beside that of the ridge regression on
the labelled points alone (penalty by points left out): on the features as they are after the supervised steps (with
--alone), and on columns, as they come. With --paper M is balanced, steps are constant, and the classifier is fitted to
labels of nearest points. The data are in the folder TRANSDUCE_DATA.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset
from clustering.datasets.digits import Digits
from clustering.datasets.mnist import MNIST
from clustering.datasets.paper_files import MAGIC
from clustering.deep import XSDC
from clustering.deep.xsdc.final_classifier import final_classifier
from clustering.evaluation.known_labels import drawn_labels
from runs.config import groups

MODELS: dict[str, Callable[[], Any]] = {
    "mnist": lambda: groups.option("method", "xsdc_lenet5").build(),
    "magic": lambda: XSDC(representation="kernel"),
    "digits": lambda: XSDC(batch_size=512),
}
PAPER = {"assignment": "balancing", "schedule": "constant", "classifier": "nearest"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", choices=list(MODELS))
    parser.add_argument("--labels", type=int, nargs="+", default=[50, 100, 500])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--alone", action="store_true", help="also with supervised steps alone, which is another fit")
    parser.add_argument("--paper", action="store_true", help="balancing, constant steps, labels of nearest points")
    options = parser.parse_args()
    folder = str(Path(os.environ.get("TRANSDUCE_DATA", ".")) / "clustering")
    torch.set_num_threads(1)
    data = {"mnist": MNIST(folder), "magic": MAGIC(folder), "digits": Digits()}[options.data].read()
    settings = PAPER if options.paper else {}
    for labels in options.labels:
        found = [run(options.data, data, labels, seed, options.alone, settings) for seed in options.seeds]
        means = ", ".join(f"{kind} {np.mean([one[kind] for one in found]):.4f}" for kind in found[0])
        print(f"{labels} labels, mean: {means}", flush=True)


def run(name: str, data: Dataset, labels: int, seed: int, alone: bool, settings: dict[str, str]) -> dict[str, float]:
    """Accuracies by what was fitted."""
    known = drawn_labels(data, labels, seed).labels
    values, began = np.asarray(data.values, dtype=np.float32), time.perf_counter()
    fitted = model(name, data, seed).set_params(**settings).fit(values, partial_labels=known)
    found = {"XSDC": right(data, known, fitted.labels_)}
    took = time.perf_counter() - began
    if alone:
        supervised = model(name, data, seed).set_params(steps=0, classifier="labelled", penalty=None)
        found["supervised steps"] = right(data, known, supervised.fit(values, partial_labels=known).labels_)
    rows = torch.from_numpy(values)
    ridge = final_classifier(rows[known >= 0], known[known >= 0], len(data.class_names), "auto", 1.0).classifier
    found["columns"] = right(data, known, ridge.scores(rows).argmax(1).numpy())
    told = ", ".join(f"{kind} {value:.4f}" for kind, value in found.items())
    print(f"{name} {labels} labels, seed {seed}: {told}, {took:.0f} s", flush=True)
    return found


def model(name: str, data: Dataset, seed: int) -> Any:
    return MODELS[name]().set_params(n_clusters=len(data.class_names), random_state=seed)


def right(data: Dataset, known: NDArray[np.int64], found: NDArray[np.int64]) -> float:
    return float((found == data.labels)[known < 0].mean())


if __name__ == "__main__":
    main()
