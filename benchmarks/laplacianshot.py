"""LaplacianShot on 10,000 five-way one-shot tasks (75 queries, 640 features), against a loop over the tasks.

The loop does the same arithmetic one task at a time. Both are free to use every core, take turns, and are given by
their best round; the ratio is the result. `strategies.py` compares it with the floor.

    python benchmarks/laplacianshot.py [tasks]
"""

import sys
from collections.abc import Callable

import torch
from machine import describe
from setting import make_bank
from torch import Tensor
from turns import take_turns, threads, timed

from fsl.evaluation.episodic import evaluate
from fsl.machine import keep_freed_memory
from fsl.samplers.balanced import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from fsl.tasks import Tasks
from fsl.transforms import transform_features

WEIGHT, NEIGHBOURS, ROUNDS = 0.7, 3, 5


def one_task(x: Tensor, labels: Tensor) -> Tensor:
    """LaplacianShot on the transformed features of one task, support first: no step that a task does not need."""
    support, query = x[:5], x[5:]
    query = query + (support.mean(0) - query.mean(0))
    everything = torch.cat([support, query])
    cosine = torch.nn.functional.normalize(everything, dim=1) @ torch.nn.functional.normalize(support, dim=1).T
    joined = cosine.argmax(1)
    joined[:5] = labels
    weights = torch.zeros_like(cosine).scatter_(1, joined[:, None], 1.0) * torch.softmax(10 * cosine, 1)
    prototypes = weights.T @ everything / weights.sum(0)[:, None]
    cost = (query.square().sum(1)[:, None] - 2 * query @ prototypes.T + prototypes.square().sum(1)).clamp_min_(0)
    gram = query @ query.T
    distances = gram.diagonal()[None] - 2 * gram
    distances.fill_diagonal_(torch.inf)
    graph = torch.zeros_like(gram).scatter_(1, distances.topk(NEIGHBOURS, dim=1, largest=False).indices, 1.0)
    graph = (graph + graph.T) / 2
    L = torch.log_softmax(-cost, 1)
    before = torch.inf
    for _ in range(100):
        S = L.exp()
        B = graph @ S
        objective = float((S * (L + cost - WEIGHT / 2 * B)).sum())
        if abs(objective - before) <= 1e-6 * abs(objective):
            break
        before = objective
        L = torch.log_softmax(WEIGHT * B - cost, 1)
    return S.argmax(1)


def loop(features: Tensor, tasks: Tasks) -> Tensor:
    """One task after the other."""
    rows = torch.cat([tasks.support, tasks.query], 1)
    return torch.stack([one_task(features[rows[i]], tasks.support_labels[i]) for i in range(len(rows))])


def loop_on_one_core(features: Tensor, tasks: Tasks) -> None:
    """The loop without sharing its small tensors between cores, which is sometimes faster."""
    with threads(1):
        loop(features, tasks)


def main(count: int = 10_000) -> None:
    print(describe())
    keep_freed_memory()
    bank = make_bank()
    tasks = Balanced().tasks(bank.labels).first(count)
    features = transform_features(bank.features, "CL2N", bank.base_mean)
    strategy = LaplacianShot(weight=WEIGHT, neighbours=NEIGHBOURS)
    some = tasks[:500]
    found = evaluate({"l": strategy, "s": SimpleShot()}, bank, some)
    same = (loop(features, some) == some.query_labels).double().mean(1)
    print(f"SimpleShot {found['s'].accuracy:.3f}, LaplacianShot {found['l'].accuracy:.3f} here and", end=" ")
    print(f"{float(same.mean()):.3f} by the loop, in {float(found['l'].iterations.mean()):.1f} steps")

    few = tasks[: -(-count // 10)]
    sides: dict[str, Callable[[], float]] = {
        "LaplacianShot": lambda: timed(lambda: evaluate({"l": strategy}, bank, tasks)) / count,
        "loop, all cores": lambda: timed(lambda: loop(features, few)) / len(few),
        "loop, one core": lambda: timed(lambda: loop_on_one_core(features, few)) / len(few),
    }
    best = {name: min(seconds) for name, seconds in take_turns(sides, ROUNDS).items()}
    for name, seconds in best.items():
        print(f"{name:20} {1e6 * seconds:8.1f} us a task")
    slow = min(seconds for name, seconds in best.items() if name.startswith("loop"))
    print(f"LaplacianShot costs {slow / best['LaplacianShot']:.2f} times less than the loop")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
