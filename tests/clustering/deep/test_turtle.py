"""TURTLE: its objective in loops, planted clusters in two spaces, what changes nothing, its score."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.deep import TURTLE
from clustering.foundation.errors import InputError
from clustering.metrics import accuracy


def spaces() -> tuple[np.ndarray, np.ndarray]:
    """Four classes; one encoder does not tell the last two apart, and the other one, in other units, the first two."""
    y = np.arange(120) % 4
    noise = np.random.default_rng(0).normal(size=(120, 7))
    means = np.hstack([np.eye(3)[[0, 1, 2, 2]], np.eye(4)[[0, 0, 1, 2]]])
    return (8 * means[y] + noise) * np.repeat([1, 50], [3, 4]), y


def quick(**options: object) -> TURTLE:
    return TURTLE(4, **{"n_init": 2, "max_iter": 80, "learning_rate": 0.03, "random_state": 0, **options})


def test_the_objective_is_that_of_classifiers_trained_one_by_one() -> None:
    random = torch.Generator().manual_seed(1)
    standard = [torch.randn(9, d, generator=random, dtype=torch.float64) for d in (3, 4)]
    heads = [torch.randn(2, 4, d, generator=random, dtype=torch.float64) for d in (3, 4)]
    found, _ = quick(entropy_weight=2.0)._objectives(standard, heads)
    for start in range(2):
        each = [torch.softmax(x @ w[start].T, dim=1) for x, w in zip(standard, heads, strict=True)]
        labels, expected = sum(each) / 2, 0.0
        for x, tau in zip(standard, each, strict=True):
            classifier = torch.zeros(4, x.shape[1], dtype=torch.float64, requires_grad=True)
            adam = torch.optim.Adam([classifier], lr=0.01)
            for _ in range(3):
                adam.zero_grad()
                torch.nn.functional.cross_entropy(x @ classifier.T, labels).backward()
                adam.step()
            expected += float(torch.nn.functional.cross_entropy(x @ classifier.detach().T, labels))
            shares = tau.mean(dim=0)
            expected += 2 * float((shares * (4 * shares).log()).sum())
        assert float(found[start]) == pytest.approx(expected, rel=1e-6)


def test_two_encoders_find_together_what_neither_finds_alone() -> None:
    X, y = spaces()
    both = quick(blocks=[3, 4]).fit(X)
    assert accuracy(y, both.labels_) > 0.95
    assert max(accuracy(y, quick().fit(part).labels_) for part in (X[:, :3], X[:, 3:])) < 0.8
    assert both.intercept_.shape == (2, 4)
    assert both.objective_ == both.start_objectives_.min()


@settings(max_examples=5, deadline=None)
@given(scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
def test_unit_and_origin_of_an_encoder_change_nothing(scale: float, shift: float) -> None:
    X, _ = spaces()
    other = np.hstack([X[:, :3], scale * X[:, 3:] + shift])
    one, same = (quick(blocks=[3, 4], max_iter=10).fit(points) for points in (X, other))
    assert np.array_equal(one.labels_, same.labels_)
    np.testing.assert_allclose(one.predict_proba(X), same.predict_proba(other), atol=1e-6)


def test_the_score_prefers_the_planted_labelling_and_is_0_for_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = spaces()
    model = quick(blocks=[3, 4]).fit(X)
    scores = []
    for labels in (y, np.random.default_rng(0).permutation(y), 0 * y):
        monkeypatch.setattr(model, "predict", lambda _, labels=labels: labels)
        scores.append(model.score(X))
    assert scores[0] > 0.7 > 0.4 > scores[1] > scores[2] == 0


def test_blocks_that_are_not_those_of_the_columns_are_refused() -> None:
    with pytest.raises(InputError, match=r"blocks=\[3, 3\] are 6 columns, and X has 7"):
        quick(blocks=[3, 3]).fit(spaces()[0])


def test_a_training_that_diverges_is_no_result() -> None:
    with pytest.raises(InputError, match="training diverged; lower learning_rate"):
        quick(learning_rate=1e30, max_iter=5).fit(np.float32(spaces()[0]))
