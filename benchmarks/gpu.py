"""Strategies on a GPU: against the floor there, against this machine's processor, and whether both agree.

10,000 5-way 1-shot tasks, 75 queries, 640 features. The floor is that of `setting.floor`, on the GPU in its best batch.
Turns as in `strategies.py`, by the clock, the best of the rounds; the processor is free to use every core.

    python benchmarks/gpu.py [--rounds 5] [--seconds 1] [--device cuda] [strategy ...]
"""

import argparse
import sys
from collections.abc import Callable

import torch
from machine import describe
from setting import floor, make_bank
from turns import take_turns, timed

from fsl.evaluation.episodic import evaluate
from fsl.features.gathering import GatheredEpisodes
from fsl.machine import keep_freed_memory
from fsl.samplers.balanced import Balanced
from fsl.strategies import STRATEGIES
from fsl.transforms import transform_features

COUNT, COMPARED = 10_000, 512
STRATEGY_NAMES = ("simpleshot", "bd_cspn", "laplacianshot", "slk_means", "slk_ms", "tim_adm", "paddle", "pt_map")
SECONDS = {"laplacianshot": 0.2}
"""What 10,000 tasks may take on a current card of a data centre."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", default=STRATEGY_NAMES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="a turn of the processor")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("left out: there is no GPU here")
        sys.exit()
    device = torch.device(options.device)
    print(f"{describe()}; {torch.cuda.get_device_name(device) if device.type == 'cuda' else device}")
    keep_freed_memory()
    bank = make_bank()
    tasks = Balanced().tasks(bank.labels).first(COUNT)
    features = transform_features(bank.features, "CL2N", bank.base_mean).to(device)

    def finished(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            work()
            if device.type == "cuda":
                torch.cuda.synchronize(device)

        return run

    floors = {f"floor, batch {batch}": batch for batch in (256, 1024, 2500)}
    sides: dict[str, Callable[[], float]] = {
        name: (lambda batch=batch: timed(finished(lambda: floor(features, tasks, batch))) / COUNT)
        for name, batch in floors.items()
    }
    strategies = {name: STRATEGIES.load(name)() for name in options.strategies}
    agreement = {}
    for name, strategy in strategies.items():
        found = []
        for place in (device, torch.device("cpu")):
            own = transform_features(bank.features, strategy.transform, bank.base_mean).to(place)
            found.append(strategy.predict(GatheredEpisodes(own, tasks[:COMPARED], strategy.transform)))
        same = (found[0].labels.cpu() == found[1].labels).double().mean()
        apart = (found[0].probabilities.cpu() - found[1].probabilities).abs().max()
        agreement[name] = f"{float(same):8.3%} of queries, probabilities within {float(apart):.0e}"
        one = {name: strategy}
        cost = timed(lambda one=one: evaluate(one, bank, tasks[:256])) / 256
        few = min(COUNT, max(256, round(options.seconds / cost)))
        sides[name] = lambda one=one: timed(finished(lambda: evaluate(one, bank, tasks, device=device))) / COUNT
        sides[f"{name}, processor"] = lambda one=one, few=few: timed(lambda: evaluate(one, bank, tasks[:few])) / few
    best = {name: min(seconds) for name, seconds in take_turns(sides, options.rounds).items()}
    unit = min(best[name] for name in floors)
    print(f"floor: {1e6 * unit:.2f} us a task, {COUNT * unit:.3f} s for {COUNT:,}")
    print(f"{'strategy':16} us a task  floors  times the processor  s for {COUNT:,}      agreement")
    for name in strategies:
        seconds, ratio = COUNT * best[name], best[f"{name}, processor"] / best[name]
        goal = "" if name not in SECONDS else "met" if seconds <= SECONDS[name] else f"over {SECONDS[name]:g}"
        print(
            f"{name:16} {1e6 * best[name]:9.2f} {best[name] / unit:7.2f} {ratio:20.1f} {seconds:13.3f} {goal:8}",
            agreement[name],
        )


if __name__ == "__main__":
    main()
