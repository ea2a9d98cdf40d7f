"""Time and memory of strategies with class names on one large task drawn at random.

    python benchmarks/class_names_scale.py --queries 12500 25000 50000 --classes 1000

Each row is a process of its own. "after the graph" is the time of the strategy without the search of neighbours, as a
multiple of the time of one product of queries and class names; "memory" is the peak beside the features.
"""

import argparse
import resource
import subprocess
import sys
import time

import torch

from clustering.graphs.knn import nearest_neighbours
from fsl.episodes import Episodes
from fsl.strategies import STRATEGIES

STRATEGY_NAMES = ("zero_shot", "laplacianshot", "transclip", "stata", "text_mixture", "adaptive", "zlap")


def peak() -> float:
    """Peak memory of the process in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def draw(queries: int, classes: int, dimension: int) -> Episodes:
    """Queries around the features of random class names."""
    generator = torch.Generator().manual_seed(0)
    text = torch.nn.functional.normalize(torch.randn(classes, dimension, generator=generator), dim=1)
    query = text[torch.randint(classes, (queries,), generator=generator)]
    query = query.add_(torch.randn(queries, dimension, generator=generator), alpha=2 / dimension**0.5)
    query = query.div_(query.norm(dim=1, keepdim=True))
    none = torch.zeros(1, 0, dtype=torch.int64)
    return Episodes(query[None, :0], none, query[None], classes, text=text[None], transform="L2N", trusted=True)


def measure(name: str, queries: int, classes: int, dimension: int) -> str:
    episodes = draw(queries, classes, dimension)
    assert episodes.text is not None
    before = peak()
    kind = STRATEGIES.load(name)
    strategy = kind(transform="L2N") if name == "laplacianshot" else kind()
    started = time.perf_counter()
    result = strategy.predict(episodes)
    seconds = time.perf_counter() - started
    memory = peak() - before

    started = time.perf_counter()
    torch.bmm(episodes.query, episodes.text.mT)
    product = time.perf_counter() - started
    started = time.perf_counter()
    if name != "zero_shot":
        nearest_neighbours(episodes.query, 3, unit=True)
    graph = time.perf_counter() - started
    steps = int(result.iterations.max())
    return f"| {name} | {queries} | {seconds:.1f} | {max(0, seconds - graph) / product:.0f} | {steps} | {memory:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, nargs="+", default=[12_500, 25_000, 50_000])
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--strategies", nargs="+", default=STRATEGY_NAMES)
    parser.add_argument("--one", action="store_true", help="measure in this process")
    given = parser.parse_args()
    if given.one:
        print(measure(given.strategies[0], given.queries[0], given.classes, given.dimension))
        return
    print("| strategy | queries | seconds | after the graph, in products | steps | memory, GiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name in given.strategies:
        for queries in given.queries:
            sizes = ("--classes", str(given.classes), "--dimension", str(given.dimension))
            command = (sys.executable, __file__, "--one", "--strategies", name, "--queries", str(queries), *sizes)
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
