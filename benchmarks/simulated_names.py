"""Strategies with class names for many classes: real features of pictures, simulated features of class names.

    python benchmarks/simulated_names.py $TRANSDUCE_DATA/vlm/clip_vitb32_*.npz

The name of a class is the mean of its validation features, displaced as texts are from pictures, plus noise in the span
of these means. The noise decides how many pictures the names alone classify correctly. The logit scale is the largest
for which the names are not more confident than they are right. A cell is the mean accuracy in percent over batches of
the test pictures.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from fsl.episodes import Episodes
from fsl.strategies import STRATEGIES

NAMES = ("zero_shot", "laplacianshot", "transclip", "stata", "text_mixture", "adaptive")


def simulated_names(means: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """(K, D) unit features of the names of classes with these means (K, D)."""
    centre = means.mean(dim=0)
    deviations = means - centre
    span = torch.linalg.qr(deviations.T).Q
    draw = normalize(torch.randn(len(means), span.shape[1], generator=generator) @ span.T, dim=1)
    gap = torch.randn(means.shape[1], generator=generator)
    gap = gap - (gap @ centre) * centre / centre.square().sum()
    signal = deviations + noise * deviations.norm(dim=1).mean() * draw
    return normalize(0.25 * normalize(centre, dim=0) + 0.75 * normalize(gap, dim=0) + 0.6 * signal, dim=1)


def task(pictures: Tensor, text: Tensor, scale: float) -> Episodes:
    """A zero-shot task."""
    none = torch.zeros(1, 0, dtype=torch.int64)
    return Episodes(pictures[None, :0], none, pictures[None], len(text), text=text[None], logit_scale=scale)


def calibrated_scale(pictures: Tensor, labels: Tensor, text: Tensor) -> float:
    """The largest of some logit scales for which the mean confidence is at most the accuracy."""
    for scale in (100.0, 80.0, 60.0, 50.0, 40.0, 30.0, 25.0):
        probabilities = task(pictures, text, scale).log_prior[0].exp().max(dim=1)
        if float(probabilities.values.mean()) <= float((probabilities.indices == labels).double().mean()):
            return scale
    return 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.3, 1.2])
    parser.add_argument("--batches", type=int, default=20)
    given = parser.parse_args()
    strategies = {name: STRATEGIES.load(name)() for name in NAMES if name != "laplacianshot"}
    strategies["laplacianshot"] = STRATEGIES.load("laplacianshot")(transform="L2N")
    print("| features | noise | classes of batch |", " | ".join(NAMES), "|")
    print("| --- | ---: | --- |" + " ---: |" * len(NAMES), flush=True)
    for path in given.files:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: torch.from_numpy(file[name].astype(np.float32)) for name in file.files}
        pictures, labels = normalize(arrays["test_features"], dim=1), arrays["test_labels"].long()
        known, classes = normalize(arrays["validation_features"], dim=1), arrays["validation_labels"].long()
        ways = int(classes.max()) + 1
        means = torch.stack([known[classes == k].mean(dim=0) for k in range(ways)])
        for noise in given.noise:
            text = simulated_names(means, noise, torch.Generator().manual_seed(0))
            scale = calibrated_scale(pictures, labels, text)
            random = np.random.default_rng(0)
            for lowest, highest, size in ((1, 4, 64), (5, 25, 64), (ways, ways, 64), (ways, ways, len(labels))):
                found: dict[str, list[float]] = {name: [] for name in NAMES}
                for _ in range(given.batches if size < len(labels) else 1):
                    present = random.choice(ways, random.integers(lowest, highest + 1), replace=False)
                    places = np.flatnonzero(np.isin(labels.numpy(), present))
                    chosen = torch.from_numpy(random.choice(places, min(size, len(places)), replace=False))
                    episodes = task(pictures[chosen], text, scale)
                    for name in NAMES:
                        right = strategies[name].predict(episodes).labels[0] == labels[chosen]
                        found[name].append(100 * float(right.double().mean()))
                kind = f"{lowest} to {highest} of {size}" if lowest < highest else f"all of {size}"
                cells = " | ".join(f"{np.mean(found[name]):.1f}" for name in NAMES)
                print(f"| {path.stem.removeprefix('clip_vitb32_')} | {noise:g} | {kind} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
