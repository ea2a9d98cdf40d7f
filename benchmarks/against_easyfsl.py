"""Strategies against easyfsl (easy-few-shot-learning) on 5-way 1-shot tasks, 75 queries, 640 features.

Both sides are given transformed features, of which they gather a task's own. Each is free to use every core, easyfsl
within a task or by a process for each core, whichever is faster. They take turns and are given by their best round.

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
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import metadata

import torch
from machine import describe
from setting import make_bank
from torch import Tensor
from turns import take_turns, threads, timed

from fsl.episodes import Strategy
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.features.gathering import GatheredEpisodes
from fsl.machine import keep_freed_memory
from fsl.samplers.balanced import Balanced
from fsl.strategies.bd_cspn import BDCSPN
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.pt_map import PTMAP
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.tim_gd import TIMGD
from fsl.tasks import Tasks
from fsl.transforms import Transform, transform_features

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


@dataclass(frozen=True)
class Match:
    """A method of both sides.

    Attributes:
        theirs: makes easyfsl's classifier.
        ours: the strategy with the nearest settings.
        goal: how many times faster it should be.
        agree: whether the settings are the same, so that the predictions should be.
        given: the transform of the features that easyfsl is given, if not the strategy's own.
    """

    theirs: Callable[[], torch.nn.Module]
    ours: Strategy
    goal: float
    agree: bool = True
    given: Transform | None = None

    @property
    def transform(self) -> Transform:
        return self.given or self.ours.transform


PUBLISHED = {"neighbours": 3, "include_self": True, "graph": "directed", "step": "published", "max_iterations": 20}
MATCHES = {
    "SimpleShot": Match(easyfsl.SimpleShot, SimpleShot(metric="cosine"), 1.5),
    "BD-CSPN": Match(easyfsl.BDCSPN, BDCSPN(temperature=1.0, weights="members", classified="original"), 2.5),
    "LaplacianShot, plain prototypes": Match(
        PlainLaplacianShot, LaplacianShot(shift=False, rectify=False, weight=0.7, **PUBLISHED), 5.0
    ),
    "LaplacianShot": Match(
        easyfsl.LaplacianShot, LaplacianShot(temperature=1.0, weight=0.7, **PUBLISHED), 5.0, agree=False
    ),
    "TIM": Match(
        partial(easyfsl.TIM, fine_tuning_steps=50, cross_entropy_weight=0.1, temperature=15.0),
        TIMGD(iterations=50),
        8.0,
        agree=False,
    ),
    "PT-MAP, unit length": Match(partial(easyfsl.PTMAP, power_factor=1.0), PTMAP(centring="none", iterations=10), 50.0),
    "PT-MAP": Match(easyfsl.PTMAP, PTMAP(centring="none", iterations=10), 50.0, agree=False, given="UN"),
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


class Processes:
    """One process for each core, forked before any thread was started."""

    given: tuple[dict[str, Tensor], Tasks]

    def __init__(self, cores: int, features: dict[str, Tensor], tasks: Tasks) -> None:
        self.cores = cores
        fork = multiprocessing.get_context("fork")
        self.pool = ProcessPoolExecutor(cores, fork, initializer=self._begin, initargs=(features, tasks))
        list(self.pool.map(abs, range(cores)))

    def run(self, name: str, count: int) -> None:
        """The first so many tasks by a method of easyfsl."""
        share = -(-count // self.cores)
        list(self.pool.map(self._share, [name] * self.cores, range(0, count, share), [share] * self.cores))

    @classmethod
    def _begin(cls, features: dict[str, Tensor], tasks: Tasks) -> None:
        torch.set_num_threads(1)
        cls.given = features, tasks

    @classmethod
    def _share(cls, name: str, first: int, count: int) -> None:
        features, tasks = cls.given
        theirs(MATCHES[name], features[MATCHES[name].transform], tasks[first : first + count])


@dataclass(frozen=True)
class Contest:
    """A method of both sides on the same tasks."""

    name: str
    match: Match
    bank: FeatureBank
    features: dict[str, Tensor]
    tasks: Tasks

    def same(self, seconds: float) -> float:
        """Share of queries for which both sides predict the same class, on tasks for a few turns."""
        some = self.tasks[: self.count(5 * seconds)]
        transform = self.match.ours.transform
        here = self.match.ours.predict(GatheredEpisodes(self.features[transform], some, transform))
        return float((self._theirs(some) == here.labels).double().mean())

    def sides(self, processes: Processes, seconds: float) -> dict[str, Callable[[], float]]:
        """Seconds a task of each side, in turns of so many seconds."""
        few = self.count(seconds)
        many, strategy = max(2048, few), {self.name: self.match.ours}
        return {
            "within a task": lambda: timed(lambda: self._theirs(self.tasks[:few])) / few,
            "by process": lambda: timed(lambda: processes.run(self.name, few)) / few,
            "here": lambda: timed(lambda: evaluate(strategy, self.bank, self.tasks[:many])) / many,
        }

    def count(self, seconds: float) -> int:
        """Tasks that easyfsl does in so many seconds on one core."""
        with threads(1):
            cost = timed(lambda: self._theirs(self.tasks[:4])) / 4
        return min(COUNT, max(8, round(seconds / cost)))

    def _theirs(self, tasks: Tasks) -> Tensor:
        return theirs(self.match, self.features[self.match.transform], tasks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", help=f"of {', '.join(MATCHES)}; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="a turn")
    options = parser.parse_args()
    print(f"{describe()}, easyfsl {metadata.version('easyfsl')}")
    keep_freed_memory()
    cores = torch.get_num_threads()
    with threads(1):
        bank = make_bank()
        tasks = Balanced().tasks(bank.labels).first(COUNT)
        kinds = {kind for match in MATCHES.values() for kind in (match.transform, match.ours.transform)}
        features = {kind: transform_features(bank.features, kind, bank.base_mean) for kind in kinds}
        processes = Processes(cores, features, tasks)
    print(f"{'us a task':32} easyfsl    here   ratio   goal         same predictions")
    for name, match in MATCHES.items():
        if options.methods and name not in options.methods:
            continue
        contest = Contest(name, match, bank, features, tasks)
        same = contest.same(options.seconds)
        sides = take_turns(contest.sides(processes, options.seconds), options.rounds)
        best = {side: min(seconds) for side, seconds in sides.items()}
        slow, fast = min(best["within a task"], best["by process"]), best["here"]
        goal = f"{match.goal:g} {'met' if slow >= match.goal * fast else 'missed'}"
        note = "settings differ" if not match.agree else "" if same >= AGREEMENT else f"less than {AGREEMENT:.1%}"
        print(f"{name:32}{1e6 * slow:8.0f}{1e6 * fast:8.1f}{slow / fast:8.2f}   {goal:12} {same:7.2%}  {note}")


if __name__ == "__main__":
    main()
