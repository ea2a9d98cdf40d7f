"""Accuracy by the number of labels, drawn from the curves of labels_needed.py.

    python benchmarks/labels_needed.py $TRANSDUCE_DATA --curves curves.jsonl
    python benchmarks/labels_needed_figure.py curves.jsonl docs/images/labels-needed.png

A line is the mean over the draws, as a share of the accuracy that all labels give. A draw that has reached 95 % keeps
its last accuracy; a line ends where all of its draws have reached 95 %.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import NullFormatter, ScalarFormatter

from runs.figures.style import PAGE, new_grid, series, styled

LINES = {
    ("smoothed_ridge", "variance"): "smoothed_ridge, variance (default)",
    ("smoothed_ridge", "random"): "smoothed_ridge, random",
    ("laplacianshot", "variance"): "LaplacianShot, variance",
    ("label_spreading", "variance"): "label spreading, variance",
    ("linear_probe", "variance"): "linear probe, variance",
    ("linear_probe", "random"): "linear probe, random",
}
TITLES = {
    "caltech101": "Caltech-101",
    "dtd": "DTD",
    "ucf101": "UCF101",
    "whurs19": "WHU-RS19",
    "whurs19_names": "WHU-RS19 with class names",
    "r8": "R8",
    "mnist": "MNIST, pixels",
    "mnist_learned": "MNIST, learned features",
    "usps": "USPS, pixels",
}


def mean_curve(entries: list[dict[str, Any]]) -> tuple[list[int], list[float]]:
    """Numbers of labels, and the mean share of the accuracy of all labels."""
    longest = max((entry["curve"] for entry in entries), key=len)
    shares = []
    for entry in entries:
        accuracies = [accuracy / entry["all"] for _, accuracy in entry["curve"]]
        shares.append(accuracies + accuracies[-1:] * (len(longest) - len(accuracies)))
    return [labels for labels, _ in longest], np.mean(shares, axis=0).tolist()


@styled
def main() -> None:
    source, target = map(Path, sys.argv[1:])
    curves: dict[tuple[str, str, str], dict[int, Any]] = defaultdict(dict)
    for line in source.read_text().splitlines():
        entry = json.loads(line)
        curves[entry["set"], entry["method"], entry["selection"]][entry["draw"]] = entry
    names = [name for name in TITLES if any(name == key[0] for key in curves)]
    figure, grid = new_grid(-(-len(names) // 3), 3, PAGE, 1.9 * -(-len(names) // 3) + 0.6)
    plots = [axes for row in grid for axes in row]
    for name, axes in zip(names, plots, strict=False):
        for i, (method, selection) in enumerate(LINES):
            if entries := list(curves[name, method, selection].values()):
                label = LINES[method, selection]
                axes.plot(*mean_curve(entries), **series(i) | {"markersize": 2.5, "linewidth": 1}, label=label)
        axes.axhline(0.95, color="grey", linewidth=0.6)
        axes.set(title=TITLES[name], xscale="log", ylim=(0.3, 1.0))
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
    for axes in plots[len(names) :]:
        axes.axis("off")
    for row, axes in enumerate(grid):
        axes[0].set_ylabel("share of all labels' accuracy")
        if row == len(grid) - 1:
            for plot in axes:
                plot.set_xlabel("labels")
    figure.legend(*plots[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main()
