"""Strategies against easyfsl (easy-few-shot-learning) on 5-way 1-shot tasks, 75 queries, 640 features.

Both sides are given transformed features, of which they gather a task's own. They take turns and are given by their
best round; easyfsl works on one task after the other, free to use every core within it.

Where the settings agree, the predictions should. They do not agree everywhere:

- TIM of easyfsl has cosines to the prototypes where the paper and `tim_gd` have squared distances.
- LaplacianShot of easyfsl rectifies with the weights of BD-CSPN, normalised over the members of a class, and classifies
  the queries as they were before the shift; neither is a setting here. With plain prototypes all settings agree (its k
  counts the point itself).
- PT-MAP of easyfsl gives points no unit length. From features as they come, exp(-10 d^2) underflows to 0 / 0 and all
  rounds of Sinkhorn are in vain; given points of unit length, all settings agree.

    pip install easyfsl; python benchmarks/against_easyfsl.py [--rounds 3] [--seconds 1] [method ...]
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import NamedTuple

import torch
from machine import describe
from setting import make_bank
from torch import Tensor
from turns import take_turns, timed

from fsl.episodes import Strategy
from fsl.evaluation.episodic import evaluate
from fsl.features.gathering import gathered
from fsl.machine import keep_freed_memory
from fsl.samplers.drawn import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.pt_map import PTMAP
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.tim_gd import TIMGD
from fsl.tasks import Tasks
from fsl.transforms import transform_features

try:
    from easyfsl import methods as easyfsl
except ImportError:
    print("left out: easyfsl is not installed; pip install easyfsl")
    sys.exit()

COUNT, AGREEMENT = 10_000, 0.999


class PlainLaplacianShot(easyfsl.LaplacianShot):
    """With the support means as prototypes."""

    def rectify_prototypes(self, query_features: Tensor) -> None:
        pass


class Match(NamedTuple):
    """easyfsl's classifier, the strategy with the nearest settings, how many times faster it should be, whether the
    predictions should be the same, and the transform of easyfsl's features if it is not the strategy's own."""

    theirs: Callable[[], torch.nn.Module]
    ours: Strategy
    goal: float
    agree: bool = True
    given: str | None = None


PUBLISHED = {"n_neighbors": 2, "graph": "directed", "variant": "published"}
PLAIN = LaplacianShot(shift=False, rectify=False, weight=0.7, **PUBLISHED)
RECTIFIED = LaplacianShot(weight=0.7, rectify=True, **PUBLISHED)
TIM = partial(easyfsl.TIM, fine_tuning_steps=50, cross_entropy_weight=0.1, temperature=15.0)
PT_MAP = PTMAP(centring=None, max_iter=10)
MATCHES = {
    "SimpleShot": Match(easyfsl.SimpleShot, SimpleShot(metric="cosine"), 1.5),
    "LaplacianShot, plain prototypes": Match(PlainLaplacianShot, PLAIN, 5.0),
    "LaplacianShot": Match(easyfsl.LaplacianShot, RECTIFIED, 5.0, agree=False),
    "TIM": Match(TIM, TIMGD(max_iter=50), 8.0, agree=False),
    "PT-MAP, unit length": Match(partial(easyfsl.PTMAP, power_factor=1.0), PT_MAP, 50.0),
    "PT-MAP": Match(easyfsl.PTMAP, PT_MAP, 50.0, agree=False, given="UN"),
}


def theirs(match: Match, features: Tensor, tasks: Tasks) -> Tensor:
    """(T, Q) predictions of easyfsl, one task after the other."""
    classifier = match.theirs()
    found = []
    with torch.no_grad():
        for support, labels, query in zip(tasks.support, tasks.support_labels, tasks.query, strict=True):
            classifier.process_support_set(features[support], labels)
            found.append(classifier(features[query]).argmax(1))
    return torch.stack(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", help=f"of {', '.join(MATCHES)}; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="a turn")
    options = parser.parse_args()
    print(f"{describe()}, easyfsl {metadata.version('easyfsl')}")
    keep_freed_memory()
    bank = make_bank()
    tasks = Balanced().tasks(bank.labels).first(COUNT)
    print(f"{'us a task':32} easyfsl    here   ratio   goal         same predictions")
    for name, match in MATCHES.items():
        if options.methods and name not in options.methods:
            continue
        transform = match.ours.transform
        own = transform_features(bank.features, transform, bank.base_mean)
        given = transform_features(bank.features, match.given, bank.base_mean) if match.given else own
        cost = timed(lambda: theirs(match, given, tasks[:4])) / 4  # noqa: B023
        few = min(COUNT, max(8, round(options.seconds / cost)))
        many = max(2048, few)
        sides = {
            "easyfsl": lambda: timed(lambda: theirs(match, given, tasks[:few])) / few,  # noqa: B023
            "here": lambda: timed(lambda: evaluate({"": match.ours}, bank, tasks[:many])) / many,  # noqa: B023
        }
        best = {side: min(seconds) for side, seconds in take_turns(sides, options.rounds).items()}
        slow, fast = best["easyfsl"], best["here"]
        here = match.ours.predict(gathered(own, tasks[:few], transform)).labels
        same = float((theirs(match, given, tasks[:few]) == here).double().mean())
        goal = f"{match.goal:g} {'met' if slow >= match.goal * fast else 'missed'}"
        note = "settings differ" if not match.agree else "" if same >= AGREEMENT else f"less than {AGREEMENT:.1%}"
        print(f"{name:32}{1e6 * slow:8.0f}{1e6 * fast:8.1f}{slow / fast:8.2f}   {goal:12} {same:7.2%}  {note}")


if __name__ == "__main__":
    main()
