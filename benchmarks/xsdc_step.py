"""What a step of XSDC costs, by part: python benchmarks/xsdc_step.py [--threads 1]

The assignment of a batch of 50 labelled points and 1,024 others (dissimilarities, what is known of pairs, balancing)
against its gradient step (features, loss, slopes, step), of the paper's network for MNIST and of those for rows. Times
are of the processor, all threads together, so that what else a machine does hardly counts; the best of several, all of
one process. Pictures and rows are noise, which costs the same.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from clustering.constraints import constraints
from clustering.deep.xsdc.balancing import balance
from clustering.deep.xsdc.discriminative import discriminative_objective, dissimilarity, normalised_features
from clustering.deep.xsdc.networks import KernelMap, LinearMap, OfRows, Perceptron, lenet5_kernel_network

LABELLED, OTHERS, CLUSTERS, PENALTY = 50, 1024, 10, 2.0**-20


def best(act: Callable[[], Any], times: int) -> tuple[float, Any]:
    """The shortest of several, in seconds of the processor, and what came of the last."""
    found = []
    for _ in range(times + 1):
        since = time.process_time()
        result = act()
        found.append(time.process_time() - since)
    return min(found[1:]), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    count = LABELLED + OTHERS
    size = count / CLUSTERS
    generator = torch.Generator().manual_seed(0)
    labels = np.full(count, -1)
    labels[:LABELLED] = np.arange(LABELLED) % CLUSTERS
    told = constraints(count, labels=labels)
    networks: dict[str, tuple[Any, int]] = {
        "lenet5, 28 x 28": (OfRows(lenet5_kernel_network(), 28), 784),
        "perceptron, 784": (Perceptron(784), 784),
        "linear, 784": (LinearMap(784, 32), 784),
        "kernel, 10": (KernelMap(10, 32), 10),
    }
    print(f"{options.threads} threads, {count} points, milliseconds; {torch.__version__}")
    print(f"{'':18}{'A':>8}{'known':>8}{'balance':>8}{'all':>8}{'gradient':>10}{'ratio':>8}")
    for name, (network, dimension) in networks.items():
        inputs = torch.rand(count, dimension, generator=generator)
        network.begin(inputs, np.random.default_rng(0))
        optimizer = network.optimizer(2.0**-6)
        with torch.no_grad():
            features = normalised_features(network(inputs))
        seconds_a, A = best(lambda features=features: dissimilarity(features, PENALTY), options.times)
        seconds_known, known = best(lambda: told.among(np.arange(count)), options.times)
        seconds_balance, balanced = best(
            lambda A=A, known=known: balance(A, known.mask, known.values, size, size, reference=1 / CLUSTERS),
            options.times,
        )

        def descend(
            network: Any = network, inputs: torch.Tensor = inputs, M: Any = balanced, step: Any = optimizer
        ) -> None:
            step.zero_grad(set_to_none=True)
            value = discriminative_objective(normalised_features(network(inputs)), M.equivalence, PENALTY)
            value.backward()  # type: ignore[no-untyped-call]
            step.step()

        seconds_gradient, _ = best(descend, options.times)
        assignment = seconds_a + seconds_known + seconds_balance
        times = (seconds_a, seconds_known, seconds_balance, assignment)
        print(
            f"{name:18}"
            + "".join(f"{1e3 * each:8.1f}" for each in times)
            + f"{1e3 * seconds_gradient:10.1f}{assignment / seconds_gradient:8.2f}"
        )


if __name__ == "__main__":
    main()
