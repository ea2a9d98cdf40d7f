"""SLK by the number of points: how long the graph, the seeds and the rest take, and the memory of all but the graph.

    python benchmarks/scale.py [points ...] [--method mean_shift]

Points are of four overlapping normal distributions in ten dimensions (as many columns and clusters as Reuters' code in
the papers). Each fit has a process of its own on one core, with the graph read from a file. Memory is the highest of
the process less what it had before it read the points: so with X, the graph and everything else. The allowance is
X + 4 N K floats + the graph + 300 MB. The slope is that of the least-squares line of log processor seconds after the
graph over log points; 1 is linear. Up to 16,384 points all of them race, beyond a sample, which takes the same time
whatever their number.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import describe

from clustering import SLK
from clustering.neighbours import neighbours
from clustering.sparse_graph import SparseGraph
from runs.figures.style import new_row, save, series, styled

COLUMNS, CLUSTERS, NEIGHBOURS = 10, 4, 5
POINTS = (10_000, 30_000, 100_000, 300_000)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "scale.png"


def draw(points: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    centres = 3 * generator.normal(size=(CLUSTERS, COLUMNS)).astype(np.float32)
    return centres[generator.integers(CLUSTERS, size=points)] + generator.normal(size=(points, COLUMNS)).astype("f4")


def peak() -> float:
    """Highest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def build(points: int, file: Path) -> dict[str, Any]:
    began = time.process_time()
    found = neighbours(draw(points), NEIGHBOURS)
    taken = time.process_time() - began
    graph = found.graph
    np.savez(file, pointers=graph.pointers, columns=graph.columns, weights=graph.weights)
    return {"graph": taken, "search": found.method, "recall": found.recall, "graph_peak": peak()}


def fit(points: int, file: Path, method: str) -> dict[str, Any]:
    SLK(2, n_init=2).fit(draw(64))  # what the libraries take at first
    before = peak()
    X = draw(points)
    with np.load(file) as arrays:
        pointers, columns, weights = (torch.from_numpy(arrays[name]) for name in ("pointers", "columns", "weights"))
    graph = SparseGraph(pointers, columns, weights, points)
    began = time.process_time()
    model = SLK(CLUSTERS, prototypes=method, random_state=0).fit(X, graph=graph)
    taken = time.process_time() - began
    size = sum(part.nbytes for part in (pointers, columns, weights))
    allowed = (X.nbytes + 4 * 4 * points * CLUSTERS + size) / 1e6 + 300
    return {"after": taken, "seeding": model.seconds_.seeding, "peak": peak() - before, "allowed": allowed}


def in_own_process(*arguments: object) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--one", *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@styled
def plot(rows: list[dict[str, Any]], method: str) -> None:
    figure, axes = new_row(2, 8, 3)
    points = [row["points"] for row in rows]
    lines = (
        ("processor seconds", (("graph", "graph"), ("after", f"SLK ({method}) after it"))),
        ("memory in MB", (("peak", "X, graph and SLK"), ("allowed", "X, graph, 4 N K floats, 300 MB"))),
    )
    for axis, (title, parts) in zip(axes, lines, strict=True):
        for i, (name, label) in enumerate(parts):
            axis.plot(points, [row[name] for row in rows], label=label, **series(i))
        axis.set(xscale="log", yscale="log", xlabel="points", ylabel=title)
        axis.legend()
    save(figure, PICTURE, title="SLK by the number of points")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", nargs="*", type=int, default=POINTS)
    parser.add_argument("--method", default="mean_shift", choices=["mean_shift", "byproduct", "mean"])
    given = parser.parse_args()
    print(describe())
    rows = []
    for points in given.points:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "graph.npz"
            row = {
                "points": points,
                **in_own_process("build", points, file),
                **in_own_process("fit", points, file, given.method),
            }
        rows.append(row)
        print(
            f"{points:>10,}: graph {row['graph']:.1f} s ({row['search']}, recall {row['recall']:.3f}), {given.method} "
            f"after it {row['after']:.1f} s, of which seeds {row['seeding']:.1f}; {row['peak']:.0f} MB of "
            f"{row['allowed']:.0f} allowed",
            flush=True,
        )
    if len(rows) > 1:
        logs = np.log([[row["points"], row["after"]] for row in rows]).T
        print(f"after the graph, seconds grow with points^{np.polyfit(*logs, 1)[0]:.2f}")
        plot(rows, given.method)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        kind, points, file, *rest = sys.argv[2:]
        work = build(int(points), Path(file)) if kind == "build" else fit(int(points), Path(file), *rest)
        print(json.dumps(work))
    else:
        main()
