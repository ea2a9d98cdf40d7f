"""SLK of one table on a Dask cluster of this machine: seconds and peak memory by worker, by the number of blocks.

Every measurement has worker processes of its own, which say at the end how much memory they ever took; what a worker
takes before there is data (Python, torch, Dask) is subtracted and shown apart. The labels are held against those of a
fit in memory on the same graph. The rows are ordered along their clusters, as docs/how_to/many-machines.md advises, or
with --shuffle at random, which makes nearly every neighbour one of another block.

    python benchmarks/dask_blocks.py [--points 200000] [--blocks 2 4 8] [--workers 2] [--shuffle]
"""

import argparse
import time
from pathlib import Path

import dask.array
import numpy as np
from distributed import Client, LocalCluster
from machine import describe

from clustering import SLK
from clustering.graphs.neighbours import neighbours

DIMENSION, CLUSTERS = 10, 4
SETTINGS = {"n_init": 1, "random_state": 0, "prototypes": "mean_shift"}


def peak() -> float:
    """MiB that this process ever took; what `resource` tells begins with what its parent took (Linux only)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**10


def table(points: int, *, shuffle: bool) -> np.ndarray:
    """(points, 10) float32, four clusters that overlap."""
    random = np.random.default_rng(0)
    labels = np.arange(points) * CLUSTERS // points
    X = (3 * random.normal(size=(CLUSTERS, DIMENSION))[labels] + random.normal(size=(points, DIMENSION))).astype("f4")
    return random.permutation(X) if shuffle else X


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--blocks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shuffle", action="store_true")
    asked = parser.parse_args()
    print(describe())
    X = table(asked.points, shuffle=asked.shuffle)
    graph = neighbours(X, 5)
    began = time.perf_counter()
    alone = SLK(CLUSTERS, **SETTINGS).fit(X, graph=graph)
    print(f"{asked.points:,} x {DIMENSION}, K = {CLUSTERS}; in memory {time.perf_counter() - began:.1f} s")
    for blocks in asked.blocks:
        with (
            LocalCluster(n_workers=asked.workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as one,
            Client(one) as client,
        ):
            client.run(__import__, "clustering.blocks.slk")
            bare = client.run(peak)
            rows = dask.array.from_array(X, chunks=(-(-len(X) // blocks), DIMENSION))
            began = time.perf_counter()
            model = SLK(CLUSTERS, **SETTINGS).fit(rows, graph=graph)
            seconds = time.perf_counter() - began
            peaks = ", ".join(f"{most - bare[worker]:.0f}" for worker, most in client.run(peak).items())
            different = int((np.asarray(model.labels_) != alone.labels_).sum())
            print(
                f"{blocks} blocks: {seconds:.1f} s; peak by worker {peaks} MiB above the {max(bare.values()):.0f} of a "
                f"bare one; {different} labels differ"
            )


if __name__ == "__main__":
    main()
