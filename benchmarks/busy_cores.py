"""What a second thread is worth where other programs use the cores, too, and where it begins to be worth something.

    TRANSDUCE_DATA=FOLDER python benchmarks/busy_cores.py [cases ...] [--busy 1] [--rounds 3]
    python benchmarks/busy_cores.py --operations [--busy 1]

Each measurement is a process of its own beside so many busy loops, settings in turns; of its rounds the median counts.
"one" is OMP_NUM_THREADS=1, "default" sets nothing, "spinning" is OMP_WAIT_POLICY=active, as threads of OpenMP wait
without this library. Seconds are of the clock and, in brackets, of the processor, without imports.

--operations times one operation of so many elements with one and with all threads of torch, in turns: where
`clustering.foundation.cores.WORTH_SHARING` comes from.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

SETTINGS = {
    "one": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    "default": {},
    "spinning": {"OMP_WAIT_POLICY": "active"},
}
_OURS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OPENBLAS_THREAD_TIMEOUT")


def _digits() -> Any:
    from sklearn.datasets import load_digits

    return load_digits().data


def _fit(make: Callable[[], Any], X: Callable[[], Any] = _digits, **options: Any) -> Callable[[], object]:
    estimator, points = make(), X()
    return lambda: estimator.fit(points, **options)


def _imported(module: str, name: str, *arguments: Any, **options: Any) -> Callable[[], Any]:
    import importlib

    return lambda: getattr(importlib.import_module(module), name)(*arguments, random_state=0, **options)


def fair(rows: int) -> Callable[[], object]:
    import numpy as np

    from fairness import FairKMeans

    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, rows)
    X = rng.standard_normal((rows, 6)) + 3 * rng.integers(0, 4, rows)[:, None] + groups[:, None]
    estimator = FairKMeans(10, fairness_weight="auto", max_error=0.05, random_state=0)
    return lambda: estimator.fit(X, sensitive_features=groups)


def strategies(queries: int, way: int, tasks: int) -> Callable[[], object]:
    from setting import make_bank

    from fsl.evaluation.episodic import evaluate
    from fsl.samplers.balanced import Balanced
    from fsl.strategies import STRATEGIES

    bank = make_bank(classes=max(20, way), each=600)
    chosen = {name: STRATEGIES.load(name)() for name in (["laplacianshot"] if queries > 1000 else _SOME)}
    drawn = Balanced(way=way, shot=1, query=queries).tasks(bank.labels)
    return lambda: evaluate(chosen, bank, drawn, tasks)


_SOME = ("simpleshot", "laplacianshot", "tim_gd", "pt_map")


def conv4(pixels: int) -> Callable[[], object]:
    import torch
    from torch.nn import functional

    from fsl.backbones import create_backbone

    torch.manual_seed(0)
    backbone = create_backbone("conv4", channels=3, size=pixels)
    head = torch.nn.Linear(backbone.feature_size, 64)
    images, labels = torch.randn(64, 3, pixels, pixels), torch.randint(64, (64,))
    optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.01)

    def steps() -> None:
        for _ in range(5):
            optimizer.zero_grad()
            functional.cross_entropy(head(backbone(images)), labels).backward()
            optimizer.step()

    return steps


def _blobs(points: int, columns: int) -> Callable[[], Any]:
    def make() -> Any:
        import numpy as np

        rng = np.random.default_rng(0)
        centres = 4 * rng.standard_normal((10, columns))
        return (centres[rng.integers(0, 10, points)] + rng.standard_normal((points, columns))).astype(np.float32)

    return make


CASES: dict[str, Callable[[], Callable[[], object]]] = {
    "kmeans": lambda: _fit(_imported("clustering", "KMeans", 10)),
    "slk": lambda: _fit(_imported("clustering", "SLK", 10)),
    "laplacian": lambda: _fit(_imported("clustering", "LaplacianKModes", 10)),
    "ncut": lambda: _fit(_imported("clustering", "Ncut", 10)),
    "entropy": lambda: _fit(_imported("clustering.deep.linear", "EntropyClustering", 10)),
    "xsdc": lambda: _fit(_imported("clustering.deep.xsdc.estimator", "XSDC", 10, steps=10)),
    "fair": lambda: fair(3_791),
    "strategies": lambda: strategies(15, 5, 200),
    "conv4-28": lambda: conv4(28),
    "conv4-84": lambda: conv4(84),
    "large-fair": lambda: fair(200_000),
    "large-slk": lambda: _fit(_imported("clustering", "SLK", 10, n_init=1), _blobs(70_000, 10)),
    "large-laplacian": lambda: _fit(_imported("clustering", "LaplacianKModes", 10, n_init=1), _blobs(20_000, 784)),
    "large-kmeans": lambda: _fit(_imported("clustering", "KMeans", 10, n_init=1), _blobs(70_000, 784)),
    "large-task": lambda: strategies(400, 100, 1),
}


def measure(case: str) -> dict[str, float]:
    """Of this process."""
    warnings.simplefilter("ignore")
    work = CASES[case]()
    began, used = time.perf_counter(), time.process_time()
    work()
    return {"clock": time.perf_counter() - began, "processor": time.process_time() - used}


def _in_process(case: str, setting: str) -> dict[str, float]:
    environment = {name: value for name, value in os.environ.items() if name not in _OURS} | SETTINGS[setting]
    command = [sys.executable, __file__, case, "--here"]
    written = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    measured: dict[str, float] = json.loads(written.splitlines()[-1])
    return measured


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy(loops: int) -> Iterator[None]:
    """So many processes that never wait."""
    processes = [multiprocessing.get_context("spawn").Process(target=_spin, daemon=True) for _ in range(loops)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def operations(rounds: int) -> None:
    """One operation of ever more elements, by one and by all threads."""
    import torch
    from turns import take_turns, threads, timed

    cores = torch.get_num_threads()
    print(f"milliseconds by one thread, and {cores} threads over one: softmax of (n, 10); product with (10, 10)")
    for exponent in range(12, 25, 2):
        x, square = torch.randn(1 << exponent, 10), torch.randn(10, 10)
        row = []
        for work in (lambda x=x: x.softmax(1), lambda x=x, square=square: x @ square):
            work()
            often = max(1, (1 << 22) // len(x))

            def side(count: int, work: Any = work, often: int = often) -> Callable[[], float]:
                def run() -> float:
                    with threads(count):
                        return timed(lambda: [work() for _ in range(often)]) / often

                return run

            seconds = take_turns({str(count): side(count) for count in (1, cores)}, rounds)
            one, several = (statistics.median(seconds[str(count)]) for count in (1, cores))
            row.append(f"{1e3 * one:10.3f} {several / one:6.2f}")
        print(f"{10 << exponent:12,} {'   '.join(row)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all where none is named")
    parser.add_argument("--busy", type=int, default=1, help="loops that run beside it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--operations", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.cases[0])))
        return
    print(f"{len(os.sched_getaffinity(0))} cores, {given.busy} busy loops, load {os.getloadavg()[0]:.1f}", flush=True)
    with busy(given.busy):
        if given.operations:
            operations(given.rounds)
            return
        for case in given.cases or CASES:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in given.settings}
            for _ in range(given.rounds):
                for name in given.settings:
                    found[name].append(_in_process(case, name))
            row = []
            for name, measured in found.items():
                clock, processor = (statistics.median(one[of] for one in measured) for of in ("clock", "processor"))
                row.append(f"{name} {clock:7.2f} ({processor:.2f})")
            print(f"{case:16} {'   '.join(row)}", flush=True)


if __name__ == "__main__":
    main()
