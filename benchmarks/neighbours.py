"""The neighbour graph beside a bare call of faiss's exact flat index, one core each, processor seconds.

    TRANSDUCE_DATA=FOLDER python benchmarks/neighbours.py usps shuttle mnist

A graph is arcs, symmetrised weights and the mean squared distance; the bare call is the index and its search. The BLAS
that comes with faiss may not know a newer processor and compute as on one of twenty years ago, so there are two bare
calls: as it comes, and told the processor by OPENBLAS_CORETYPE, as numpy's BLAS recognises it. Of large data faiss
answers a tenth of the queries, and the time is ten times theirs: it is linear in them. Every side has its own process.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import describe
from numpy.typing import NDArray
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_info

from clustering.datasets import DATASETS
from clustering.graphs.neighbours import neighbours

K = 5
ALL_QUERIES_UP_TO = 20_000
Measured = dict[str, Any]


def points(name: str) -> NDArray[np.float32]:
    root = Path(os.environ["TRANSDUCE_DATA"]) / "clustering"
    return np.asarray(normalize(DATASETS.load(name)(root=str(root)).read().values), dtype=np.float32)


def by_faiss(X: NDArray[np.float32]) -> Measured:
    import faiss

    faiss.omp_set_num_threads(1)
    share = 1 if len(X) <= ALL_QUERIES_UP_TO else 10
    began = time.process_time()
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    added = time.process_time() - began
    index.search(X[::share], K + 1)
    return {"seconds": added + (time.process_time() - began - added) * share}


def here(X: NDArray[np.float32], method: Any) -> Measured:
    torch.set_num_threads(1)
    began = time.process_time()
    found = neighbours(X, K, method=method)
    return {"seconds": time.process_time() - began, "search": found.method, "recall": found.recall}


def in_own_process(*arguments: str, **environment: str) -> Measured:
    found = subprocess.run(
        [sys.executable, __file__, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    if found.returncode:
        raise SystemExit(found.stderr)
    return json.loads(found.stdout)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--side", choices=["faiss", "auto", "exact", "hnsw"], help="of this process")
    given = parser.parse_args()
    if given.side:
        X = points(given.datasets[0])
        print(json.dumps(by_faiss(X) if given.side == "faiss" else here(X, given.side)))
        return
    print(describe())
    kinds = [info["architecture"] for info in threadpool_info() if info["internal_api"] == "openblas"]
    print(
        "| data | side | processor seconds | share of faiss, told the processor | share of faiss as it comes | recall |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for name in given.datasets:
        told = in_own_process(name, "--side", "faiss", **({"OPENBLAS_CORETYPE": kinds[0]} if kinds else {}))
        plain = in_own_process(name, "--side", "faiss")
        sides = {f"faiss, told {''.join(kinds[:1])}": told, "faiss as it comes": plain}
        for method in ("exact", "hnsw"):
            found = in_own_process(name, "--side", method)
            sides[f"here: {found['search']}"] = found
        for side, found in sides.items():
            shares = (f"{found['seconds'] / other['seconds']:.2f}" for other in (told, plain))
            print(
                f"| {name} | {side} | {found['seconds']:.2f} | {' | '.join(shares)} | {found.get('recall', 1):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
