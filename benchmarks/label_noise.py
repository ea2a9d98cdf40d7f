"""Training with wrong labels (Zhang and Boykov, Figure 11): a share eta of MNIST's labels becomes random ones, and
a small network is trained by the cross-entropy with smoothed labels, forward and reverse, and by the absolute error.

    python benchmarks/label_noise.py ROOT --seeds 3

Targets are eta / K + (1 - eta) of the label, as the paper has them; at eta = 0 the reverse cross-entropy would be
infinite, and eta is taken to be 0.01. It is the absolute error up to a factor, log(1 + K (1 - eta) / eta).
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from machine import describe
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clustering.datasets.mnist import MNIST
from clustering.deep import losses
from clustering.deep.networks import Classifier, small_cnn
from clustering.streams import stream, stream_key

LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
CLASSES, BATCH = 10, 100


def smoothed(labels: Tensor, eta: float) -> Tensor:
    eta = max(eta, 0.01)
    return eta / CLASSES + (1 - eta) * functional.one_hot(labels, CLASSES).float()


LOSSES: Mapping[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "forward": lambda log_p, labels, eta: losses.cross_entropy(log_p, smoothed(labels, eta)),
    "reverse": lambda log_p, labels, eta: losses.reverse_cross_entropy(log_p, smoothed(labels, eta)),
    "absolute": lambda log_p, labels, _: losses.absolute_error(log_p, labels),
}


def spread(values: NDArray[np.float64]) -> str:
    """Mean and deviation over seeds."""
    return f"{values.mean():.3f} (sd {values.std(ddof=1):.3f})"


def trained(images: Tensor, labels: Tensor, name: str, eta: float, seed: int, epochs: int) -> Classifier:
    """The network after so many epochs of Adam; the same weights and order for every loss."""
    with torch.random.fork_rng():
        torch.manual_seed(stream_key(seed, "label noise", "weights"))
        model = Classifier(small_cnn(1), images[:2], CLASSES, torch.Generator().manual_seed(seed))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(stream_key(seed, "label noise", "order"))
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=generator).split(BATCH):
            optimiser.zero_grad()
            LOSSES[name](model(images[batch]), labels[batch], eta).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="folder with mnist.npz")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=10)
    given = parser.parse_args()
    print(describe())
    data = MNIST(str(given.root)).read()
    assert data.labels is not None
    pixels = torch.from_numpy((data.values - 0.1307) / 0.3081).view(-1, 1, 28, 28)[..., 2:26, 2:26]
    truth = torch.from_numpy(data.labels)
    test = slice(60_000, 70_000)
    for eta in LEVELS:
        found: dict[str, list[float]] = {name: [] for name in LOSSES}
        for seed in range(given.seeds):
            rng = stream(seed, "label noise", "labels")
            chosen = torch.from_numpy(rng.permutation(60_000)[: given.points])
            wrong = torch.from_numpy(rng.random(given.points) < eta)
            labels = torch.where(wrong, torch.from_numpy(rng.integers(0, CLASSES, given.points)), truth[chosen])
            for name in LOSSES:
                model = trained(pixels[chosen], labels, name, eta, seed, given.epochs)
                with torch.no_grad():
                    guessed = torch.cat([model(part).argmax(1) for part in pixels[test].split(1000)])
                found[name].append(float((guessed == truth[test]).float().mean()))
        ours = np.array(found["reverse"])
        print(f"eta {eta:.1f}: " + "  ".join(f"{name} {spread(np.array(of))}" for name, of in found.items()))
        paired = (f"{name} by {spread(ours - np.array(found[name]))}" for name in ("forward", "absolute"))
        print("         reverse above " + ", ".join(paired), flush=True)


if __name__ == "__main__":
    main()
