"""What strategies share. 5-way 1-shot tasks, 75 queries, 640 features; one core, by its processor time.

First, a table in one `evaluate` against the sum of its strategies alone: of strategies that need inner products alone,
the inner products of a task are computed once for all of a transform. How much that saves depends on what a strategy
does besides. Of those that take no step or a few, most is saved, and a table of them is to cost less than half of the
sum; the others do several times as much with the products as these cost.

Second, two ways to come by the products of a task: to gather its features and multiply them, as `evaluate` does, or to
multiply the features of the whole bank once (12,000 x 12,000, 0.54 GiB) and gather the products of each task. Single
numbers are slow to gather, so that the second way is ahead only after some ten thousands of tasks on the same bank, and
never by much. The first is what is built.

    python benchmarks/shared_products.py [--rounds 5] [--tasks 1024]
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from machine import describe
from setting import make_bank
from torch import Tensor
from turns import take_turns, threads, timed

from fsl.evaluation.episodic import evaluate
from fsl.features.gathering import GatheredEpisodes
from fsl.machine import keep_freed_memory
from fsl.samplers.balanced import Balanced
from fsl.strategies import STRATEGIES
from fsl.tasks import Tasks
from fsl.transforms import transform_features

FEW_STEPS = ("simpleshot", "protonet", "nearest", "matchingnet", "bd_cspn", "laplacianshot")
ITERATIVE = ("kmeans", "kmodes", "slk_means", "slk_ms", "slk_bo", "label_propagation", "tim_adm", "pt_map")
TRANSFORM = "CL2N"


def per_task(features: Tensor, tasks: Tasks, batch: int = 256) -> None:
    """Inner products of each task from its features."""
    for first in range(0, len(tasks), batch):
        _ = GatheredEpisodes(features, tasks[first : first + batch], TRANSFORM).points


def of_the_bank(features: Tensor) -> Tensor:
    """Inner products of all samples."""
    return torch.mm(features, features.mT)


def gathered(products: Tensor, tasks: Tasks, batch: int = 64) -> None:
    """Inner products of each task out of those of the bank; no indexing of PyTorch was faster than this one."""
    flat, samples = products.view(-1), len(products)
    for part in torch.cat([tasks.support, tasks.query], 1).split(batch):
        places = part[:, :, None] * samples + part[:, None]
        flat.index_select(0, places.view(-1)).view(places.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=1024)
    options = parser.parse_args()
    print(describe())
    keep_freed_memory()
    bank = make_bank()
    tasks = Balanced().tasks(bank.labels).first(options.tasks)
    features = transform_features(bank.features, TRANSFORM, bank.base_mean)
    strategies = {name: STRATEGIES.load(name)(transform=TRANSFORM) for name in FEW_STEPS + ITERATIVE}

    def together(*names: str) -> Callable[[], object]:
        return lambda: evaluate({name: strategies[name] for name in names}, bank, tasks)

    with threads(1):
        products = of_the_bank(features)
        work = {name: together(name) for name in strategies} | {
            "few steps": together(*FEW_STEPS),
            "all": together(*strategies),
            "per task": lambda: per_task(features, tasks),
            "of the bank": lambda: of_the_bank(features),
            "gathered": lambda: gathered(products, tasks),
        }
        sides = {name: (lambda side=side: timed(side, time.thread_time)) for name, side in work.items()}
        seconds = {name: statistics.median(found) for name, found in take_turns(sides, options.rounds).items()}
    us = {name: 1e6 * value / len(tasks) for name, value in seconds.items()}
    for title, names in (("few steps", FEW_STEPS), ("all", tuple(strategies))):
        parts = sum(us[name] for name in names)
        print(f"{', '.join(names)}:")
        print(f"    {us[title]:.1f} us a task together, {us[title] / parts:.2f} of their sum")
    bank_in_tasks = seconds["of the bank"] / max(1e-9, (us["per task"] - us["gathered"]) / 1e6)
    print(f"inner products of a task: {us['per task']:.1f} us from its features, {us['gathered']:.1f} us gathered from")
    print(f"those of the bank, which cost {seconds['of the bank']:.2f} s:", end=" ")
    print(f"ahead after {bank_in_tasks:,.0f} tasks" if us["gathered"] < us["per task"] else "never ahead")


if __name__ == "__main__":
    main()
