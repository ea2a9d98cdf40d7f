"""Pseudo-labels of entropy clustering: the paper's EM and the exact solver, on random predictions as in its Table I and
on confident unbalanced ones; and both beside the gradient step that they serve.

    python benchmarks/pseudo_labels.py
"""

import time
from collections.abc import Callable

import torch
from machine import describe
from torch import Tensor
from torch.nn import functional

from clustering.deep.fair_pseudo_labels import PseudoLabels, em_pseudo_labels, exact_pseudo_labels, fair_objective
from clustering.deep.networks import Classifier, small_cnn
from clustering.deep.objectives import Entropy

FAIRNESS = 100.0


def seconds(work: Callable[[], object], repeats: int = 7) -> float:
    """The shortest of several."""
    work()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def solvers(log_p: Tensor, prior: Tensor) -> dict[str, Callable[[], PseudoLabels]]:
    def em(tolerance: float) -> Callable[[], PseudoLabels]:
        return lambda: em_pseudo_labels(log_p, FAIRNESS, prior, tolerance=tolerance, max_iterations=20_000)

    return {f"em {tolerance:g}": em(tolerance) for tolerance in (1e-2, 1e-3, 1e-5)} | {
        "exact": lambda: exact_pseudo_labels(log_p, FAIRNESS, prior)
    }


def main() -> None:
    print(describe())
    problems = [(1000, 2, 0.0), (1000, 20, 0.0), (1000, 200, 0.0), (250, 10, 0.0), (250, 10, 1.5)]
    for points, classes, offset in problems:
        generator = torch.Generator().manual_seed(0)
        scores = 3 * torch.randn(points, classes, generator=generator, dtype=torch.float64)
        scores += offset * torch.randn(classes, generator=generator, dtype=torch.float64)
        log_p, prior = torch.log_softmax(scores, -1), torch.full((classes,), 1 / classes, dtype=torch.float64)
        least = float(fair_objective(exact_pseudo_labels(log_p, FAIRNESS, prior).labels, log_p, FAIRNESS, prior))
        kind = "unbalanced" if offset else "balanced"
        for name, solve in solvers(log_p, prior).items():
            found = solve()
            above = float(fair_objective(found.labels, log_p, FAIRNESS, prior)) - least
            print(
                f"N {points:4} K {classes:3} {kind:10}  {name:8} {int(found.iterations):5} steps"
                f" {1e3 * seconds(solve, 3):9.2f} ms  above the minimum by {max(above, 0):.1e}",
                flush=True,
            )
    model = Classifier(small_cnn(1), torch.zeros(2, 1, 24, 24), 10, torch.Generator().manual_seed(0))
    views, prior = torch.randn(500, 1, 24, 24), torch.full((10,), 0.1)

    def step() -> None:
        model.zero_grad()
        functional.nll_loss(model(views), torch.arange(500) % 10).backward()  # type: ignore[no-untyped-call]

    whole = seconds(step, 5)
    log_p = torch.log_softmax(3 * torch.randn(250, 10) + 1.5 * torch.randn(10), -1)
    for objective in (Entropy(), Entropy(solver="exact")):
        share = seconds(lambda objective=objective: objective.targets(log_p, prior), 5) / whole
        print(f"{objective.solver}: {share:.3f} of a gradient step of the small network, 250 images and a view of each")


if __name__ == "__main__":
    main()
