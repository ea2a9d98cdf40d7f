"""The classifier at the end: leave-one-out errors in closed form against fits without each point, and the choice."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clustering.deep.xsdc.discriminative import final_classifier, left_out_error, ridge


def draw(seed: int, points: int, labelled: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    classes = np.arange(points) % 3
    values = generator.normal(size=(points, 4)) + 2 * np.eye(3, 4)[classes]
    return values, np.where(np.arange(points) < labelled, classes, -1)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), labelled=st.integers(4, 12), others=st.integers(1, 20), power=st.integers(-20, 0))
def test_the_error_at_points_left_out_is_that_of_fits_without_them(
    seed: int, labelled: int, others: int, power: int
) -> None:
    """Labels of nearest points are found anew without the point, and the penalty weighs as much as with it."""
    values, labels = draw(seed, labelled + others, labelled)
    one_hot, penalty = np.eye(3), 2.0**power
    distances = np.square(values[labelled:, None] - values[:labelled]).sum(-1)
    nearest = np.argsort(distances, axis=1)[:, :2]
    expected = []
    for left in range(labelled):
        kept = np.delete(np.arange(labelled), left)
        found = labels[kept][np.square(values[labelled:, None] - values[kept]).sum(-1).argmin(axis=1)]
        rows = np.concatenate([values[kept], values[labelled:]])
        targets = torch.from_numpy(one_hot[np.concatenate([labels[kept], found])])
        weight = penalty * (labelled + others) / len(rows)
        scores = ridge(torch.from_numpy(rows), targets, weight).scores(torch.from_numpy(values[left : left + 1]))
        expected.append(np.square(scores.numpy()[0] - one_hot[labels[left]]).sum())
    full = np.concatenate([labels[:labelled], labels[nearest[:, 0]]])
    error = left_out_error(
        torch.from_numpy(values),
        torch.from_numpy(one_hot[full]),
        torch.tensor([penalty, 1.0]),
        torch.from_numpy(nearest),
    )
    assert float(error[0]) == pytest.approx(np.mean(expected), rel=1e-5)


def test_nearest_points_where_labels_are_few_and_labelled_ones_where_clusters_overlap() -> None:
    generator = np.random.default_rng(0)
    classes = np.arange(600) % 3
    apart = np.eye(3, 20)[classes] + 0.1 * generator.normal(size=(600, 20))
    mixed = np.eye(3, 4)[classes] + 1.0 * generator.normal(size=(600, 4))
    cases: list[tuple[Any, int, Any]] = [(apart, 6, "nearest"), (mixed, 200, "labelled")]
    for values, known, kind in cases:
        points, labels = torch.from_numpy(values), np.where(np.arange(600) < known, classes, -1)
        penalty, chosen = final_classifier(points, labels, 3, "auto", 0.1)
        torch.testing.assert_close(chosen, final_classifier(points, labels, 3, kind, penalty)[1])
    penalty_alone, alone = final_classifier(points[:200], classes[:200], 3, "auto", 0.1)
    assert penalty_alone == penalty
    torch.testing.assert_close(alone.weights, chosen.weights)
