"""Claims of entropy clustering against its rivals: paired by start, undecided where chance could do it."""

from typing import Any

import numpy as np
import pytest

from runs.stages.clustering.results import Trials
from runs.tables.claims import CLAIMS
from runs.tables.claims.claim import Claim
from runs.tables.claims.clustering import of_order

EM, NEWTON = "pseudo_labels_em", "pseudo_labels_newton"


def claim(*methods: str, labels: bool = False) -> Claim:
    """The published claim about these methods."""
    (found,) = [
        one for one in CLAIMS["clustering"] if one.methods == methods and one.options.get("labels", False) == labels
    ]
    return found


def trials(accuracies: list[float], seeds: list[int], **more: list[float]) -> Trials:
    count = len(accuracies)
    whole: dict[str, Any] = {name: np.zeros(count) for name in ("objective", "criterion", "clusters", "iterations")}
    return Trials(
        settings=({},),
        setting=np.zeros(count, dtype=np.int64),
        start=np.arange(count),
        seeds=np.array(seeds),
        given=np.ones(count, dtype=bool),
        tried=np.zeros(count, dtype=bool),
        labels=np.zeros((count, 2), dtype=np.uint8),
        confidence=None,
        mode_indices=None,
        mode_movements=None,
        seconds=np.zeros((count, 3)),
        scores={"acc_hungarian": np.array(accuracies)} | {name: np.array(values) for name, values in more.items()},
        **whole,
    )


class Results:
    def __init__(self, **by_method: list[Trials]) -> None:
        self.by_method = by_method

    def of(self, method: str) -> list[Trials]:
        return self.by_method.get(method, [])


@pytest.mark.parametrize(
    ("theirs", "status"),
    [([0.70, 0.80, 0.90], "holds"), ([0.73, 0.80, 0.94], "tie"), ([0.8, 0.9, 1.0], "fails")],
)
def test_starts_are_paired_by_their_seed(theirs: list[float], status: str) -> None:
    ours = [trials([0.72, 0.83], [5, 6]), trials([0.93], [7])]
    (found,) = claim("entropy", "sela").check(Results(entropy=ours, sela=[trials(theirs[::-1], [7, 6, 5])]))
    assert found[0] == status
    assert "of the same 3 starts" in found[1]


def test_nothing_is_said_without_pairs() -> None:
    assert not list(claim("entropy", "sela").check(Results(entropy=[trials([0.7, 0.8], [1, 2])])))
    assert not list(claim("entropy", "sela").check(Results(entropy=[trials([0.7], [1])], sela=[trials([0.7], [2])])))


def test_with_known_labels_and_without_are_claims_apart() -> None:
    ours = [trials([0.1, 0.1], [5, 6], accuracy=[0.9, 0.8])]
    theirs = [trials([0.2, 0.3], [5, 6], accuracy=[0.7, 0.65])]
    (found,) = claim("entropy", "sela", labels=True).check(Results(entropy=ours, sela=theirs))
    assert found[0] == "holds"
    assert found[1] == "entropy 0.850, sela 0.675; of the same 2 starts +0.175 ± 0.050"
    assert not list(claim("entropy", "sela").check(Results(entropy=ours, sela=theirs)))
    without = [trials([0.2, 0.3], [5, 6])]
    assert not list(claim("entropy", "sela", labels=True).check(Results(entropy=without, sela=without)))


@pytest.mark.parametrize(
    ("means", "status"),
    [((0.3, 0.4, 0.5), "holds"), ((0.3, 0.6, 0.5), "fails"), ((0.5, 0.4, 0.3), "fails"), ((0.5, 0.4, 0.5), "tie")],
)
def test_accuracy_along_orders(means: tuple[float, ...], status: str) -> None:
    by_order = dict(zip((0.1, 1.0, 1000.0), means, strict=True))
    results = {of_order(order): [trials([mean, mean + 0.02], [1, 2])] for order, mean in by_order.items()}
    (found,) = claim(of_order(0.1), of_order(1000)).check(Results(**results))
    assert found[0] == status
    assert found[1].startswith(f"0.1: {means[0] + 0.01:.3f}, 1: ")
    assert not list(claim(of_order(0.1), of_order(1000)).check(Results(**{of_order(5.0): results["migd"]})))
