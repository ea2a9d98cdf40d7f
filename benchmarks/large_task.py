"""One task of 227 ways, a whole split as in the iNat protocol (a fifth of it support, 512 features), with ever more
queries.

Each measurement has a process and a core of its own. What it takes is split into the graph (exact neighbours and the
compressed rows) and everything else, in processor seconds, which other programs disturb least. The slope is that of the
least-squares line of log seconds after the graph over log queries: 1 is linear. Peak memory is that of the process,
with the bank mapped from its file. The flat index of faiss looks for the same neighbours.

    python benchmarks/large_task.py [queries ...]
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from machine import describe
from setting import make_bank

import clustering.graphs.neighbourhood
from clustering.graphs.knn import nearest_neighbours
from clustering.graphs.sparse_graph import SparseGraph
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.machine import keep_freed_memory
from fsl.samplers.whole_split import WholeSplit
from fsl.strategies import STRATEGIES
from runs.figures.style import COLOURS, MARKERS, new_figure, save, styled

WAYS, DIMENSION, NEIGHBOURS = 227, 512, 10
NAMES = ("laplacianshot", "slk_ms")
QUERIES = (5_000, 10_000, 20_000, 50_000)
SUPPORT_SHARE = 0.2
ROUNDS = 2
"""Processes of each kind, of which the quickest counts, and the largest."""
FAISS_AT = 10_000
"""Queries at which faiss is compared."""
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "large-task.png"

Measured = dict[str, Any]


def measure(name: str, path: Path) -> Measured:
    """Of this process: the strategy on the whole split."""
    keep_freed_memory()  # as the command line does
    seconds = 0.0

    def timed(work: Any) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal seconds
            began = time.process_time()
            done = work(*arguments, **options)
            seconds += time.process_time() - began
            return done

        return run

    clustering.graphs.neighbourhood.nearest_neighbours = timed(nearest_neighbours)
    SparseGraph.of_arcs = timed(SparseGraph.of_arcs)  # type: ignore[method-assign]
    bank = FeatureBank.load(path)
    tasks = WholeSplit(SUPPORT_SHARE).tasks(bank.labels)
    found = evaluate({name: STRATEGIES.load(name)(neighbours=NEIGHBOURS)}, bank, tasks)[name]
    return {
        "accuracy": found.accuracy,
        "steps": int(found.iterations[0]),
        "graph": seconds,
        "after": found.seconds_per_task - seconds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def in_own_process(*arguments: object) -> Measured:
    command = [sys.executable, __file__, *map(str, arguments)]
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    if found.returncode:
        raise SystemExit(found.stderr)
    return json.loads(found.stdout)  # type: ignore[no-any-return]


def against_faiss(path: Path) -> Measured:
    """Of this process: processor seconds of exact neighbours here and by faiss, in turns, and where they agree."""
    x = FeatureBank.load(path).features
    seconds: dict[str, list[float]] = {"here": [], "faiss": []}
    for _ in range(ROUNDS):
        began = time.process_time()
        ours = nearest_neighbours(x[None], NEIGHBOURS).indices[0]
        seconds["here"].append(time.process_time() - began)
        began = time.process_time()
        index = faiss.IndexFlatL2(x.shape[1])
        index.add(x.numpy())
        theirs = torch.from_numpy(index.search(x.numpy(), NEIGHBOURS + 1)[1])
        seconds["faiss"].append(time.process_time() - began)
    theirs = theirs[theirs != torch.arange(len(x))[:, None]].view(len(x), NEIGHBOURS)  # the point itself
    same = (ours[:, :, None] == theirs[:, None]).any(2).double().mean()
    return {"ratio": min(seconds["faiss"]) / min(seconds["here"]), "same": float(same)}


@styled
def draw(results: dict[str, dict[int, Measured]], slopes: dict[str, float]) -> None:
    figure, axes = new_figure(7.0, 3.8)
    for i, (name, found) in enumerate(results.items()):
        queries, style = list(found), {"color": COLOURS[i], "marker": MARKERS[i]}
        after, graph = ([one[part] for one in found.values()] for part in ("after", "graph"))
        axes.plot(queries, after, label=f"{name} after its graph, slope {slopes[name]:.2f}", **style)
        axes.plot(queries, graph, label=f"graph of {name}", linestyle="--", alpha=0.6, **style)
        axes.plot(queries, [after[0] * q / queries[0] for q in queries], color="grey", linestyle=":", linewidth=1)
    axes.plot([], [], color="grey", linestyle=":", linewidth=1, label="linear from the first point")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(queries, [f"{q:,}" for q in queries])
    axes.minorticks_off()
    axes.set_xlabel("queries")
    axes.set_ylabel("seconds of one core")
    axes.set_title(f"one task of {WAYS} ways, {DIMENSION} features, a fifth of the images support", fontsize="medium")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")
    print(f"saved: {save(figure, PICTURE)}")


def main(*sizes: int) -> None:
    print(describe())
    print(f"{'':14} {'queries':>8} {'graph':>9} {'after':>9} {'steps':>6} {'accuracy':>9} {'peak':>10}")
    results: dict[str, dict[int, Measured]] = {name: {} for name in NAMES}
    with tempfile.TemporaryDirectory() as folder:
        for queries in sizes or QUERIES:
            path = Path(folder) / "bank.safetensors"
            make_bank(WAYS, round(queries / (1 - SUPPORT_SHARE) / WAYS), DIMENSION).save(path)
            for name in NAMES:
                rounds = [in_own_process("measure", name, path) for _ in range(ROUNDS)]
                one = results[name][queries] = rounds[0] | {
                    "graph": min(found["graph"] for found in rounds),
                    "after": min(found["after"] for found in rounds),
                    "peak": max(found["peak"] for found in rounds),
                }
                print(
                    f"{name:14} {queries:8,} {one['graph']:7.1f} s {one['after']:7.1f} s {one['steps']:6} "
                    f"{one['accuracy']:9.3f} {one['peak']:6.2f} GiB",
                    flush=True,
                )
            if queries == FAISS_AT:
                one = in_own_process("faiss", path)
                print(f"faiss's flat index takes {one['ratio']:.1f} times as long; {one['same']:.4%} the same")
    slopes = {}
    for name, found in results.items():
        after = [one["after"] for one in found.values()]
        slopes[name] = float(np.polyfit(np.log(list(found)), np.log(after), 1)[0]) if len(found) > 1 else float("nan")
        peak = max(one["peak"] for one in found.values())
        print(f"{name}: slope after the graph {slopes[name]:.2f} (goal 1), peak {peak:.2f} GiB (goal 2)")
    if not sizes:
        draw(results, slopes)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(sys.argv[2], Path(sys.argv[3]))))
    elif sys.argv[1:2] == ["faiss"]:
        print(json.dumps(against_faiss(Path(sys.argv[2]))))
    else:
        main(*(int(argument) for argument in sys.argv[1:]))
