"""SLK by the number of points: how long the graph, the seeds and the rest take, and the memory of all but the graph.

    python benchmarks/scale.py [points ...] [--method mean_shift] [--exact-up-to 1000000] [--graphs FOLDER]

Points are of four overlapping normal distributions in ten dimensions (as many columns and clusters as Reuters' code in
the papers). Each fit has a process of its own on one core, with the graph read from a file; times are those of the
processor. Memory is the highest of the process less what it had before it read the points: so with X, the graph and
everything else. The allowance is X + 4 N K floats + the graph + 300 MB. The slope is that of the least-squares line of
log seconds after the graph over log points, from 30,000 on; 1 is linear. Up to 16,384 points all of them race, beyond
a sample, which takes the same time whatever their number.

Above `--exact-up-to` points neighbours are looked for among every hundredth, say, so that each look is among 10,000:
not the true ones, but as many, as far apart in memory, and quickly found. What SLK costs after it is as with others.
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
from clustering.graphs.neighbours import neighbours, symmetrised
from clustering.graphs.row_search import nearest_rows
from clustering.graphs.sparse_graph import SparseGraph
from runs.figures.style import new_row, save, series, styled

COLUMNS, CLUSTERS, NEIGHBOURS = 10, 4, 5
POINTS = (10_000, 30_000, 100_000, 300_000)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "slk-scale.png"
FEW, FROM = 10_000, 30_000  # points of a piece, and from which on growth is measured
PIECES = f"in pieces of {FEW:,}"


def draw(points: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    centres = 3 * generator.normal(size=(CLUSTERS, COLUMNS)).astype(np.float32)
    return centres[generator.integers(CLUSTERS, size=points)] + generator.normal(size=(points, COLUMNS)).astype("f4")


def peak() -> float:
    """Highest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def build(points: int, file: Path, exact_up_to: int) -> dict[str, Any]:
    X = draw(points)
    began = time.process_time()
    if points > exact_up_to:
        graph, search = pieced(X), PIECES
    else:
        found = neighbours(X, NEIGHBOURS)
        graph, search = found.graph, found.method
    taken = time.process_time() - began
    np.savez(file, pointers=graph.pointers, columns=graph.columns, weights=graph.weights)
    return {"graph": taken, "search": search, "graph_peak": peak()}


def pieced(X: np.ndarray) -> SparseGraph:
    """The graph of neighbours among every so many-th point only."""
    indices = np.empty((len(X), NEIGHBOURS), dtype=np.int32)
    count = -(-len(X) // FEW)
    for first in range(count):
        rows = np.arange(first, len(X), count, dtype=np.int32)
        indices[rows] = rows[nearest_rows(torch.from_numpy(X[rows]), NEIGHBOURS, "tree").indices]
    return symmetrised(indices, np.ones(indices.shape, dtype=np.float32), "average")


def fit(points: int, file: Path, method: str) -> dict[str, Any]:
    SLK(2, n_init=2).fit(draw(64))  # what the libraries take at first
    before = peak()
    X = draw(points)
    with np.load(file) as arrays:
        pointers, columns, weights = (torch.from_numpy(arrays[name]) for name in ("pointers", "columns", "weights"))
    graph = SparseGraph(pointers, columns, weights, points)
    time.perf_counter = time.process_time  # others may use the core, too
    began = time.process_time()
    model = SLK(CLUSTERS, prototypes=method, random_state=0).fit(X, graph=graph)
    taken = time.process_time() - began
    size = sum(part.nbytes for part in (pointers, columns, weights))
    allowed = (X.nbytes + 4 * 4 * points * CLUSTERS + size) / 1e6 + 300
    _, seeding, optimise = model.seconds_
    return {
        "after": taken,
        "seeding": seeding,
        "optimise": optimise,
        "updates": model.n_iter_,
        "peak": peak() - before,
        "allowed": allowed,
    }


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
    lines = (
        (
            "processor seconds",
            (("graph", "graph, all neighbours"), ("seeding", "seeds"), ("optimise", f"the rest of SLK ({method})")),
        ),
        ("memory in MB", (("peak", "X, graph and SLK"), ("allowed", "X, graph, 4 N K floats, 300 MB"))),
    )
    for axis, (title, parts) in zip(axes, lines, strict=True):
        for i, (name, label) in enumerate(parts):
            known = [row for row in rows if name != "graph" or row["search"] != PIECES]
            axis.plot([row["points"] for row in known], [row[name] for row in known], label=label, **series(i))
        axis.set(xscale="log", yscale="log", xlabel="points", ylabel=title)
        axis.legend()
    save(figure, PICTURE, title="SLK by the number of points")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("points", nargs="*", type=int, default=POINTS)
    parser.add_argument("--method", default="mean_shift", choices=["mean_shift", "byproduct", "mean"])
    parser.add_argument("--exact-up-to", type=int, default=1_000_000)
    parser.add_argument("--graphs", type=Path, help="a folder that keeps the graphs")
    given = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(points, given.graphs or Path(folder), given) for points in given.points]
    large = np.array([[row["points"], row["after"]] for row in rows if row["points"] >= FROM])
    if len(large) > 1:
        print(f"after the graph, seconds grow with points^{np.polyfit(*np.log(large).T, 1)[0]:.2f}")
        plot(rows, given.method)


def measured(points: int, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    file, told = folder / f"{points}.npz", folder / f"{points}.json"
    if not told.exists():
        folder.mkdir(parents=True, exist_ok=True)
        told.write_text(json.dumps(in_own_process("build", points, file, given.exact_up_to)))
    row = {"points": points, **json.loads(told.read_text()), **in_own_process("fit", points, file, given.method)}
    print(
        f"{points:>10,}: graph {row['graph']:.1f} s ({row['search']}), {given.method} after it {row['after']:.1f} s, "
        f"of which seeds {row['seeding']:.1f}, {row['updates']} updates; {row['peak']:.0f} MB of {row['allowed']:.0f} "
        "allowed",
        flush=True,
    )
    return row


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        kind, points, file, *rest = sys.argv[2:]
        work = (
            build(int(points), Path(file), int(rest[0])) if kind == "build" else fit(int(points), Path(file), rest[0])
        )
        print(json.dumps(work))
    else:
        main()
