"""Every few-shot strategy against the floor, in one run: 5-way 1-shot tasks, 75 queries, 640 features.

The floor is `setting.floor`: gathering the features and one batched product of the queries. Floor and strategies take
turns, first on one core by its own processor time, which other programs disturb least, then free to use every core by
the clock. A figure is the median of the rounds on one core, the best of them on all. What does not depend on the number
of tasks (the transform of the bank) is part of a strategy's time; the goals are meant for 10,000 tasks. A turn takes as
many tasks as go into about a second, at most 10,000. Peak memory is that of a process with the bank and one strategy.

    python benchmarks/strategies.py [--rounds 3] [--seconds 1] [strategy ...]
"""

import argparse
import multiprocessing
import resource
import statistics
import time

import torch
from machine import describe
from setting import FLOOR_BATCHES, floor, floor_by_core, make_bank
from turns import take_turns, threads, timed

from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.machine import keep_freed_memory
from fsl.samplers.balanced import Balanced
from fsl.strategies import STRATEGIES
from fsl.tasks import Tasks
from fsl.transforms import transform_features

MOST = 10_000
GOALS = {
    "laplacianshot": 1.5,
    "bd_cspn": 1.4,
    "slk_means": 6.0,
    "slk_ms": 6.0,
    "tim_adm": 5.0,
    "paddle": 8.0,
    "pt_map": 8.0,
}


class Strategy:
    """A strategy on as many of the tasks as go into the time of a turn."""

    def __init__(self, name: str, bank: FeatureBank, tasks: Tasks, seconds: float) -> None:
        self.name, self.bank, self.tasks = name, bank, tasks
        self.strategy = STRATEGIES.load(name)()
        self.accuracy = 0.0
        with threads(1):
            self.run(32)
            cost = timed(lambda: self.run(64), time.thread_time) / 64
        self.count = min(len(tasks), max(128, 128 * round(seconds / cost / 128)))

    def run(self, count: int) -> None:
        self.accuracy = evaluate({self.name: self.strategy}, self.bank, self.tasks[:count])[self.name].accuracy

    def on_one_core(self) -> float:
        with threads(1):
            return timed(lambda: self.run(self.count), time.thread_time) / self.count

    def on_all_cores(self) -> float:
        return timed(lambda: self.run(self.count)) / self.count


def peak_memory(strategies: list[Strategy]) -> dict[str, float]:
    """GiB of a process that evaluates one strategy, forked before any thread was started."""
    fork = multiprocessing.get_context("fork")

    def measure(strategy: Strategy, send: object) -> None:
        strategy.run(min(1024, strategy.count))
        send.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)

    found = {}
    for strategy in strategies:
        receive, send = fork.Pipe(duplex=False)
        process = fork.Process(target=measure, args=(strategy, send))
        process.start()
        found[strategy.name] = receive.recv()
        process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", help="default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="a turn")
    options = parser.parse_args()
    print(describe())
    keep_freed_memory()
    cores = torch.get_num_threads()
    with threads(1):
        bank = make_bank()
        tasks = Balanced().tasks(bank.labels).first(MOST)
        features = transform_features(bank.features, "CL2N", bank.base_mean)
        names = options.strategies or sorted(STRATEGIES.table)
        strategies = [Strategy(name, bank, tasks, options.seconds) for name in names]
    memory = peak_memory(strategies)

    def floor_on_one_core(batch: int) -> float:
        with threads(1):
            return timed(lambda: floor(features, tasks, batch), time.thread_time) / MOST

    floors = {f"floor {batch}": batch for batch in FLOOR_BATCHES}
    one = take_turns(
        {name: (lambda batch=batch: floor_on_one_core(batch)) for name, batch in floors.items()}
        | {strategy.name: strategy.on_one_core for strategy in strategies},
        options.rounds,
    )
    every = take_turns(
        {
            name: (lambda batch=batch: timed(lambda: floor_by_core(features, tasks, batch)) / MOST)
            for name, batch in floors.items()
        }
        | {strategy.name: strategy.on_all_cores for strategy in strategies},
        options.rounds,
    )
    typical = {name: statistics.median(seconds) for name, seconds in one.items()}
    best = {name: min(seconds) for name, seconds in every.items()}
    unit, unit_of_all = (min(side[name] for name in floors) for side in (typical, best))
    print(f"floor: {1e6 * unit:.1f} us a task on one core, {1e6 * unit_of_all:.1f} on {cores}")
    print(f"{'strategy':20} us on 1 core   floors  floors on {cores}   goal           GiB   accuracy")
    for strategy in sorted(strategies, key=lambda strategy: typical[strategy.name]):
        name, goal = strategy.name, GOALS.get(strategy.name)
        ratios = typical[name] / unit, best[name] / unit_of_all
        verdict = "" if goal is None else "met" if ratios[1] <= goal else "missed"
        print(
            f"{name:20} {1e6 * typical[name]:12.1f} {ratios[0]:8.2f} {ratios[1]:12.2f} {goal or '':>6} {verdict:6} "
            f"{memory[name]:5.2f}  {100 * strategy.accuracy:6.2f} %"
        )


if __name__ == "__main__":
    main()
