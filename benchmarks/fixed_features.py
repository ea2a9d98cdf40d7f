"""Discriminative clustering of fixed features by a linear head, against K-means on the same images: MNIST's pixels.

python benchmarks/fixed_features.py ROOT --points 10000 --seeds 6
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from machine import describe
from sklearn.cluster import KMeans

from clustering.datasets.mnist import MNIST
from clustering.deep import OBJECTIVES
from clustering.deep.linear import fit_heads, log_probabilities
from clustering.foundation.streams import stream
from clustering.metrics import accuracy, ari


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path, help="folder with mnist.npz")
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--margin-weight", type=float, default=3e-4, help="as of EntropyClustering; 1e-3 of others")
    given = parser.parse_args()
    print(describe())
    data = MNIST(str(given.root)).read()
    names = ("entropy", "migd", "sela", "miadm")  # what the others add is views or labels
    margins = {"entropy": given.margin_weight}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ("kmeans", *names)}
    prior = torch.full((10,), 0.1)
    for seed in range(given.seeds):
        chosen = stream(seed, "fixed features").permutation(len(data.labels))[: given.points]
        values, truth = data.values[chosen], data.labels[chosen]
        points = torch.from_numpy(values)
        labels = {"kmeans": KMeans(10, n_init=1, random_state=seed).fit_predict(values)}
        for name in names:
            heads = fit_heads(
                points,
                10,
                OBJECTIVES.load(name)(),
                prior,
                starts=1,
                steps=given.steps,
                batch_size=250,
                learning_rate=0.3,
                margin_weight=margins.get(name, 1e-3),
                start_norm=0.1,
                seed=seed,
            )
            labels[name] = log_probabilities(points, heads.weights[0]).argmax(1).numpy()
        for name, of in labels.items():
            found[name].append((accuracy(truth, of), ari(truth, of)))
        print(f"seed {seed}: " + "  ".join(f"{name} {scores[-1][0]:.3f}" for name, scores in found.items()), flush=True)
    ours = np.array(found["entropy"])
    for name, scores in found.items():
        values, paired = np.array(scores), ours - np.array(scores)
        spread = values.std(0, ddof=1), paired.std(0, ddof=1)
        print(
            f"{name:8} ACC {values[:, 0].mean():.3f} (sd {spread[0][0]:.3f})  ARI {values[:, 1].mean():.3f}"
            f"   entropy above by {paired[:, 0].mean():+.3f} (sd {spread[1][0]:.3f})"
        )


if __name__ == "__main__":
    main()
