"""Every few-shot strategy against the floor, in one run: 5-way 1-shot tasks, 75 queries, 640 features.

The floor is `setting.floor`: gathering the features and one batched product of the queries. Floor and strategies take
turns, first on one core by its own processor time, which other programs disturb least, then free to use every core by
the clock. A figure is the median of the rounds on one core, the best of them on all. What does not depend on the number
of tasks (the transform of the bank) is part of a strategy's time; the goals are meant for 10,000 tasks. A turn takes as
many tasks as go into about a second, at most 10,000. With `--device cuda`, the turns are on the GPU instead.

    python benchmarks/strategies.py [--rounds 3] [--seconds 1] [--device cpu] [strategy ...]
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from machine import describe
from setting import FLOOR_BATCHES, floor, floor_by_core, make_bank
from turns import take_turns, threads, timed

from fsl.evaluation.episodic import evaluate
from fsl.machine import keep_freed_memory
from fsl.samplers.drawn import Balanced
from fsl.strategies import STRATEGIES
from fsl.transforms import transform_features

MOST = 10_000
GOALS = {"laplacianshot": 1.5, "bd_cspn": 1.4, "slk_means": 6, "slk_ms": 6, "tim_adm": 5, "paddle": 8, "pt_map": 8}
"""Floors that a task may take, on all cores."""
SECONDS = {"laplacianshot": 0.2}
"""What 10,000 tasks may take on a current GPU of a data centre."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", help="default: all that need nothing but features")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="a turn")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    if (on_gpu := device.type == "cuda") and not torch.cuda.is_available():
        print("left out: there is no GPU here")
        return
    print(describe() + (f"; {torch.cuda.get_device_name(device)}" if on_gpu else ""))
    keep_freed_memory()
    cores = torch.get_num_threads()
    with threads(1):
        bank = make_bank()
        tasks = Balanced().tasks(bank.labels).first(MOST)
        features = transform_features(bank.features, "CL2N", bank.base_mean).to(device)
    kinds = {name: STRATEGIES.load(name) for name in options.strategies or sorted(STRATEGIES.table)}
    strategies = {
        name: kind()
        for name, kind in kinds.items()
        if getattr(kind, "text", "none") != "required" and not getattr(kind, "needs_images", False)
    }
    accuracy: dict[str, float] = {}

    def run(name: str, count: int) -> None:
        one = {name: strategies[name]}
        accuracy[name] = evaluate(one, bank, tasks[:count], device=device)[name].accuracy
        if on_gpu:
            torch.cuda.synchronize(device)

    def turns(clock: Callable[[], float], the_floor: Callable[..., None], batches: tuple[int, ...]) -> dict[str, list]:
        """Seconds a task of each strategy and of the floor with each size of a batch, round by round."""

        def floor_turn(batch: int) -> float:
            def work() -> None:
                the_floor(features, tasks, batch)
                if on_gpu:
                    torch.cuda.synchronize(device)

            return timed(work, clock) / MOST

        sides = {f"floor {batch}": lambda batch=batch: floor_turn(batch) for batch in batches}
        for name in strategies:
            run(name, 32)
            cost = timed(lambda name=name: run(name, 64), clock) / 64
            count = MOST if on_gpu else min(MOST, max(128, 128 * round(options.seconds / cost / 128)))
            sides[name] = lambda name=name, count=count: timed(lambda: run(name, count), clock) / count
        return take_turns(sides, options.rounds)

    columns: dict[str, dict[str, float]] = {}
    if on_gpu:
        found = turns(time.perf_counter, floor, (256, 1024, 2500))
        columns["GPU"] = {name: min(seconds) for name, seconds in found.items()}
    else:
        with threads(1):
            found = turns(time.thread_time, floor, FLOOR_BATCHES)
        columns["1 core"] = {name: statistics.median(seconds) for name, seconds in found.items()}
        found = turns(time.perf_counter, floor_by_core, FLOOR_BATCHES)
        columns[f"{cores} cores"] = {name: min(seconds) for name, seconds in found.items()}
    units = {place: min(s for name, s in own.items() if name.startswith("floor ")) for place, own in columns.items()}
    print("floor: " + ", ".join(f"{1e6 * unit:.2f} us a task on {place}" for place, unit in units.items()))
    print(f"{'strategy':30}" + "".join(f"{'us, ' + place:>14}{'floors':>8}" for place in columns) + "  accuracy  goal")
    last = list(columns)[-1]
    for name in sorted(strategies, key=lambda name: columns[last][name]):
        seconds, limits = columns[last][name], SECONDS if on_gpu else GOALS
        reached = MOST * seconds if on_gpu else seconds / units[last]
        goal = f"{limits[name]:g} {'met' if reached <= limits[name] else 'missed'}" if name in limits else ""
        cells = "".join(f"{1e6 * own[name]:14.2f}{own[name] / units[place]:8.2f}" for place, own in columns.items())
        print(f"{name:30}{cells}{100 * accuracy[name]:8.2f} %  {goal}")


if __name__ == "__main__":
    main()
