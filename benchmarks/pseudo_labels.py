"""Pseudo-labels: the paper's EM, exact solver and unstructured Newton of entropy clustering at the same tolerance, on
random predictions as in its Table I and on confident unbalanced ones; the transport of self-labelling against POT's
Sinkhorn; and both beside the gradient step that they serve.

    pip install POT; python benchmarks/pseudo_labels.py
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from machine import describe
from torch import Tensor
from torch.nn import functional

from clustering.deep.fair_assignment import em_steps, newton_pseudo_labels
from clustering.deep.fair_pseudo_labels import em_pseudo_labels, exact_pseudo_labels
from clustering.deep.networks import Classifier, small_cnn
from clustering.deep.objectives import Entropy, Objective, SeLa
from clustering.optimiser.transport import sinkhorn

FAIRNESS = 100.0
GAPS = (1e-3, 1e-5, 1e-7)
"""By what share of 1 + lambda the objective may be above its minimum."""
PROBLEMS = ((200, 3, 0.0), (1000, 2, 0.0), (1000, 20, 0.0), (250, 10, 0.0), (250, 10, 1.5), (1000, 200, 0.0))
"""Points, classes, and deviation of the classes' offsets."""
TRANSPORTS = ((250, 10, 0.5), (250, 10, 3.0), (1000, 20, 0.5), (10_000, 10, 0.5))
LARGEST_DENSE = 2000
"""Unknowns of an unstructured Newton step, which solves a system of them."""


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The shortest of several, by the processor's time: others may be at work on the machine."""
    work()
    found: list[float] = []
    while sum(found) < 10 and (len(found) < repeats or sum(found) < 0.3):  # short work many times
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def draw(points: int, classes: int, offset: float) -> tuple[Tensor, Tensor]:
    """(N, K) log-probabilities and an even prior."""
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(points, classes, generator=generator, dtype=torch.float64)
    scores += offset * torch.randn(classes, generator=generator, dtype=torch.float64)
    return torch.log_softmax(scores, -1), torch.full((classes,), 1 / classes, dtype=torch.float64)


def solvers() -> None:
    """Seconds to the same share of the minimum."""
    for points, classes, offset in PROBLEMS:
        log_p, prior = draw(points, classes, offset)
        for gap in GAPS:
            steps = em_steps(log_p, FAIRNESS, prior, gap, 1 << 12 if classes > 100 else 1 << 15)
            exact = seconds(partial(exact_pseudo_labels, log_p, FAIRNESS, prior, tolerance=gap))
            shown = "EM does not get there"
            if steps is not None:
                em = seconds(partial(em_pseudo_labels, log_p, FAIRNESS, prior, tolerance=0, max_iterations=steps))
                shown = f"EM {steps:6} steps {1e3 * em:9.2f} ms ({em / exact:.2f} of exact)"
            dense = ""
            if points * classes <= LARGEST_DENSE:
                newton = partial(newton_pseudo_labels, log_p, FAIRNESS, prior, tolerance=gap)
                dense = f"  dense Newton {1e3 * seconds(newton, 1):9.0f} ms"
            kind = "unbalanced" if offset else "balanced"
            print(
                f"N {points:4} K {classes:3} {kind:10} gap {gap:g}: exact {1e3 * exact:8.2f} ms, {shown}{dense}",
                flush=True,
            )


def transport() -> None:
    """SeLa's labels, whose scores are 25 times the log-probabilities, to the same error of the classes' shares."""
    try:
        import ot
    except ImportError:
        print("POT is not installed: no comparison of transports")
        return
    for points, classes, offset in TRANSPORTS:
        log_p, prior = draw(points, classes, offset)
        scores, rows, columns = 25 * log_p, torch.ones(points, dtype=torch.float64), prior * points
        solve = partial(sinkhorn, scores, rows, columns, tolerance=1e-4)
        ours, found = seconds(solve), solve()
        error = float((found.assignments.mean(0) - prior).abs().max())
        print(f"transport N {points} K {classes}: {1e3 * ours:.2f} ms, {int(found.rounds)} rounds, error {error:.1e}")
        cost, mass, shares = (-scores).numpy(), np.full(points, 1 / points), prior.numpy()
        for method in ("sinkhorn_log", "sinkhorn_stabilized"):
            pot = partial(ot.sinkhorn, mass, shares, cost, 1.0, method, stopThr=1e-4, numItermax=5_000, warn=False)
            began = time.process_time()
            off = np.abs(pot().sum(0) - shares).max()
            took = time.process_time() - began
            if took < 2:
                took = seconds(pot, 3)
            print(f"    POT {method} {1e3 * took:.1f} ms, error {off:.1e}: {took / ours:.1f} times as long", flush=True)


def beside_the_gradient() -> None:
    """What pseudo-labels of a batch cost beside the step of a network."""
    model = Classifier(small_cnn(1), torch.zeros(2, 1, 24, 24), 10, torch.Generator().manual_seed(0))
    views, prior = torch.randn(500, 1, 24, 24), torch.full((10,), 0.1)

    def step() -> None:
        model.zero_grad()
        functional.nll_loss(model(views), torch.arange(500) % 10).backward()  # type: ignore[no-untyped-call]

    whole = seconds(step)
    for sharpness in (0.1, 3.0):
        log_p = torch.log_softmax(sharpness * (torch.randn(250, 10) + 0.5 * torch.randn(10)), -1)
        objectives: dict[str, Objective] = {
            "em": Entropy(),
            "exact": Entropy(solver="exact"),
            "transport": SeLa(),
        }
        for name, objective in objectives.items():
            share = seconds(partial(objective.targets, log_p, prior)) / whole
            print(f"{name:9} logits of size {sharpness:g}: {share:.3f} of a gradient step, 250 images and a view")


if __name__ == "__main__":
    print(describe(), flush=True)
    solvers()
    transport()
    beside_the_gradient()
