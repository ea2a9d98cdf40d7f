"""Golden numbers of small cases: a class whose numbers change must raise its `revision`, since results in the cache and
shipped results are found by it.

    python tests/test_revisions.py     # writes the numbers of today to tests/golden.json
"""

import json
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clustering.methods import METHODS
from fairness.methods import METHODS as FAIR_METHODS
from fsl.episodes import Episodes
from fsl.strategies import STRATEGIES

GOLDEN = Path(__file__).resolve().parent / "golden.json"
OBJECTIVE, PROBABILITY = 0.001, 0.01
"""Differences by rounding on other processors: relative of an objective, absolute of a mean probability or share."""
BY_IMAGES = ("transductive_fine_tuning",)
"""Strategies on images, which have no case here."""


def tasks() -> Episodes:
    """Six tasks of four classes with class names, non-negative features as after a ReLU."""
    random = torch.Generator().manual_seed(2026)
    centres = 2 * torch.randn(6, 4, 16, generator=random)
    labels = torch.arange(4).repeat_interleave(2).expand(6, -1).contiguous()
    hidden = torch.randint(0, 4, (6, 15), generator=random)
    noisy = lambda chosen: (chosen + torch.randn(chosen.shape, generator=random)).relu()  # noqa: E731
    support = noisy(centres.gather(1, labels[..., None].expand(-1, -1, 16)))
    query = noisy(centres.gather(1, hidden[..., None].expand(-1, -1, 16)))
    text = centres.relu() + 0.3
    return Episodes(support, labels, query, 4, base_mean=torch.rand(16, generator=random), text=text, logit_scale=10.0)


def points() -> tuple[np.ndarray, np.ndarray]:
    """Points (120, 5) around three centres, and a group of each."""
    random = np.random.Generator(np.random.Philox(2026))
    centres = 3 * random.normal(size=(3, 5))
    values = np.repeat(centres, 40, axis=0) + random.normal(size=(120, 5))
    group = (random.random(120) < np.repeat([0.3, 0.5, 0.7], 40)).astype(int)
    return values.astype(np.float32), group


def of_strategy(kind: Any) -> dict[str, float]:
    probabilities = kind().predict(tasks()).probabilities.double()
    means = probabilities.mean(dim=(0, 1)).tolist()
    return {"sure": float(probabilities.amax(-1).mean()), **{f"class {k}": mean for k, mean in enumerate(means)}}


def of_estimator(kind: Any, *, fair: bool = False) -> dict[str, float]:
    values, group = points()
    known = {"n_clusters": 3, "random_state": 0}
    model = kind(**{name: value for name, value in known.items() if name in kind().get_params()})
    given: dict[str, Any] = {}
    if fair:
        given = {"sensitive_features": {"group": group}}
    elif kind.__name__ == "SeededKMeans":
        given = {"partial_labels": np.where(np.arange(120) % 20 == 0, np.arange(120) // 40, -1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(values, **given)
    sizes = np.sort(np.bincount(model.labels_, minlength=3))[::-1] / 120
    found = {f"size {k}": float(size) for k, size in enumerate(sizes)}
    objective = float(getattr(model, "objective_", getattr(model, "inertia_", np.nan)))
    return found if np.isnan(objective) else {"objective": objective, **found}


def cases() -> Iterator[tuple[str, Any, Any]]:
    """Name, class and function of each case."""
    for name in STRATEGIES.table:
        if name not in BY_IMAGES:
            kind = STRATEGIES.load(name)
            yield f"strategy/{name}", kind, of_strategy
    for name in METHODS.table:
        yield f"method/{name}", METHODS.load(name), of_estimator
    for name in FAIR_METHODS.table:
        yield f"fair_method/{name}", FAIR_METHODS.load(name), partial(of_estimator, fair=True)


CASES = {name: (kind, compute) for name, kind, compute in cases()}


def differs(name: str, now: float, before: float) -> bool:
    allowed = OBJECTIVE * max(abs(now), abs(before)) if name == "objective" else PROBABILITY
    return abs(now - before) > allowed


@pytest.mark.parametrize("case", CASES)
def test_changed_numbers_have_a_new_revision(case: str) -> None:
    kind, compute = CASES[case]
    noted = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert case in noted, f"{case} is new: run `python tests/test_revisions.py`"
    before, numbers = noted[case], compute(kind)
    assert before["revision"] == getattr(kind, "revision", 1), f"run `python tests/test_revisions.py` for {case}"
    assert numbers.keys() == before["numbers"].keys()
    changed = {name: (before["numbers"][name], value) for name, value in numbers.items()}
    changed = {name: pair for name, pair in changed.items() if differs(name, pair[1], pair[0])}
    assert not changed, f"{case} changed, {changed}: raise `revision` of {kind.__name__}, and renew tests/golden.json"


def test_there_is_no_case_too_many() -> None:
    assert json.loads(GOLDEN.read_text(encoding="utf-8")).keys() == CASES.keys()


if __name__ == "__main__":
    sys.path.insert(0, str(GOLDEN.parents[1]))
    found = {
        name: {"revision": getattr(kind, "revision", 1), "numbers": compute(kind)}
        for name, (kind, compute) in CASES.items()
    }
    rounded = {
        name: one | {"numbers": {key: float(f"{value:.6g}") for key, value in one["numbers"].items()}}
        for name, one in found.items()
    }
    GOLDEN.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")
