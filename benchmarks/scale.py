"""SLK by the number of points: how long the graph, the seeds and the rest take, and the memory of all but the graph.

    python benchmarks/scale.py [points ...] [--method mean_shift] [--graphs FOLDER]

Points are of four overlapping normal distributions in ten dimensions (as many columns and clusters as Reuters' code in
the papers). Each fit has a process of its own on one core, with the graph read from a file; times are those of the
processor. Memory is the highest of the process less what it had before it read the points: so with X, the graph and
everything else. The allowance is X + 4 N K floats + the graph + 300 MB. The slope is that of the least-squares line of
log seconds after the graph over log points, from 30,000 on; 1 is linear. Up to 16,384 points all of them race, beyond
a sample, which takes the same time whatever their number.
"""

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import describe

from clustering import SLK
from clustering.graphs.neighbours import neighbours
from clustering.graphs.sparse_graph import SparseGraph

COLUMNS, CLUSTERS, NEIGHBOURS = 10, 4, 5
POINTS = (10_000, 30_000, 100_000, 300_000)
FROM = 30_000  # points from which on growth is measured


def draw(points: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    centres = 3 * generator.normal(size=(CLUSTERS, COLUMNS)).astype(np.float32)
    return centres[generator.integers(CLUSTERS, size=points)] + generator.normal(size=(points, COLUMNS)).astype("f4")


def peak() -> float:
    """Highest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def build(points: int, file: Path) -> None:
    """Write the graph, and the seconds that it took."""
    X, began = draw(points), time.process_time()
    graph = neighbours(X, NEIGHBOURS).graph
    arrays = {"pointers": graph.pointers, "columns": graph.columns, "weights": graph.weights}
    np.savez(file, seconds=time.process_time() - began, **arrays)


def fit(points: int, file: Path, method: str) -> dict[str, Any]:
    SLK(2, n_init=2).fit(draw(64))  # what the libraries take at first
    before, X = peak(), draw(points)
    with np.load(file) as arrays:
        parts = [torch.from_numpy(arrays[name]) for name in ("pointers", "columns", "weights")]
        searched = float(arrays["seconds"])
    time.perf_counter = time.process_time  # others may use the core, too
    began = time.process_time()
    model = SLK(CLUSTERS, prototypes=method, random_state=0).fit(X, graph=SparseGraph(*parts, points))
    return {
        "graph": searched,
        "after": time.process_time() - began,
        "seeding": model.seconds_[1],
        "updates": model.n_iter_,
        "peak": peak() - before,
        "allowed": (X.nbytes + 4 * 4 * points * CLUSTERS + sum(part.nbytes for part in parts)) / 1e6 + 300,
    }


def apart(work: Any, *arguments: object) -> Any:
    """The result of work in a process of its own, on one core."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", nargs="*", type=int, default=POINTS)
    parser.add_argument("--method", default="mean_shift", choices=["mean_shift", "byproduct", "mean"])
    parser.add_argument("--graphs", type=Path, help="a folder that keeps the graphs")
    given = parser.parse_args()
    print(describe())
    large = []
    with tempfile.TemporaryDirectory() as folder:
        for points in given.points:
            file = (given.graphs or Path(folder)) / f"{points}.npz"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                apart(build, points, file)
            row = apart(fit, points, file, given.method)
            said = f"graph {row['graph']:.1f} s, {given.method} after it {row['after']:.1f} s"
            said += f", of which seeds {row['seeding']:.1f}, {row['updates']} updates"
            print(f"{points:>10,}: {said}; {row['peak']:.0f} MB of {row['allowed']:.0f} allowed", flush=True)
            large += [(points, row["after"])] if points >= FROM else []
    if len(large) > 1:
        print(f"after the graph, seconds grow with points^{np.polyfit(*np.log(large).T, 1)[0]:.2f}")


if __name__ == "__main__":
    main()
