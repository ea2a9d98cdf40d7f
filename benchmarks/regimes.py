"""What strategies gain over SimpleShot with balanced and with Dirichlet queries, in 1-shot and in 5-shot.

    python benchmarks/regimes.py conv4.safetensors conv6.safetensors --tasks 1000
    python benchmarks/regimes.py glyphs.safetensors --tasks 5 --way 227

Each file is a feature bank, such as `transduce evaluate` leaves in RESULTS/cache/features. All strategies get the same
tasks, with 15 queries a class (on average); those that shift the queries are there with and without the shift. A
cell is the mean difference of accuracy in points and half of its 95 % interval over tasks; * is below SimpleShot by
more than that. In the end, in how many cells that is so, and which share of the best gain is kept where least of it is.
"""

import argparse
import dataclasses
from pathlib import Path

import numpy as np

from fsl.evaluation.episodic import evaluate
from fsl.evaluation.scores import half_width
from fsl.features.bank import FeatureBank
from fsl.named_strategies import SHIFT
from fsl.samplers.balanced import Balanced
from fsl.samplers.dirichlet import Dirichlet
from fsl.strategies import STRATEGIES

LEFT_OUT = {"tim_gd", "alpha_tim", "ilpc", "transductive_fine_tuning"}  # slow
LEFT_OUT |= {"nearest", "baseline", "baseline_plus_plus", "matchingnet", "protonet"}  # inductive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("banks", type=Path, nargs="+")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--way", type=int, default=5)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--strategies", nargs="+", default=[n for n in STRATEGIES.table if n not in LEFT_OUT])
    given = parser.parse_args()
    strategies = {"simpleshot": STRATEGIES.load("simpleshot")()}
    for name in given.strategies:
        strategies[name] = STRATEGIES.load(name)()
        if any(field.name == SHIFT for field in dataclasses.fields(strategies[name])):
            strategies[f"{name} shift=false"] = dataclasses.replace(strategies[name], shift=False)
    gains: dict[str, list[float]] = {name: [] for name in strategies}
    below = dict.fromkeys(strategies, 0)
    for path in given.banks:
        bank = FeatureBank.load(path)
        usable = {name: each for name, each in strategies.items() if each.transform != "PT" or bank.features.min() >= 0}
        samplers = [
            sampler for shot in given.shots for sampler in (Balanced(given.way, shot), Dirichlet(given.way, shot))
        ]
        rows: dict[str, list[str]] = {name: [] for name in usable}
        for sampler in samplers:
            found = evaluate(usable, bank, sampler.tasks(bank.labels), given.tasks)
            simple = found["simpleshot"].accuracies
            rows["simpleshot"].append(f"{100 * simple.mean():.2f}")
            for name in strategies:
                if name not in found:
                    gains[name].append(np.nan)
                    continue
                differences = 100 * (found[name].accuracies - simple)
                mean, width = float(differences.mean()), half_width(differences)
                gains[name].append(mean)
                if name != "simpleshot":
                    rows[name].append(f"{mean:+.2f} ± {width:.2f}{'*' if mean < -width else ''}")
                    below[name] += mean < -width
        print(f"\n| {path.stem} |", " | ".join(sampler.label for sampler in samplers), "|")
        print("| --- |" + " ---: |" * len(samplers))
        for name, cells in rows.items():
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
    best = np.nanmax(list(gains.values()), axis=0)
    print("\n| strategy | cells below | least of the best gain |\n| --- | ---: | ---: |")
    for name, values in list(gains.items())[1:]:
        print(f"| {name} | {below[name]} of {np.isfinite(values).sum()} | {np.nanmin(values / best):.0%} |")


if __name__ == "__main__":
    main()
