"""BD-CSPN against loops, and its identities."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.episodes import Episodes
from fsl.strategies.bd_cspn import BDCSPN
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from tests.oracles import heads_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw, turned

seeds = st.integers(0, 100_000)


@settings(deadline=None, max_examples=30)
@given(
    seed=seeds,
    transform=st.sampled_from(["UN", "L2N", "CL2N"]),
    shift=st.booleans(),
    temperature=st.floats(0.5, 20),
    weights=st.sampled_from(["members", "classes"]),
    confident=st.sampled_from([None, 1, 2, 20]),
    support_labels=st.sampled_from(["given", "predicted"]),
    metric=st.sampled_from(["cosine", "euclidean"]),
    classified=st.sampled_from(["shifted", "original"]),
    shot=st.integers(1, 3),
)
def test_it_agrees_with_loops(seed: int, transform: str, shot: int, **options: object) -> None:
    episodes = draw(seed, shot=shot)
    found = BDCSPN(transform=transform, **options).predict(episodes)  # type: ignore[arg-type]
    for rows, task in zip(found.probabilities, as_arrays(episodes, transform), strict=True):
        expected = oracle.bd_cspn(*task, 3, **options)  # type: ignore[arg-type]
        torch.testing.assert_close(rows, torch.from_numpy(expected))


@settings(deadline=None, max_examples=10)
@given(seed=seeds, support_labels=st.sampled_from(["given", "predicted"]))
def test_by_distance_it_is_laplacianshot_without_its_graph(seed: int, support_labels: str) -> None:
    """Both take the rectification from one place."""
    episodes = draw(seed, queries=20)
    options = {"support_labels": support_labels, "temperature": 7.0}
    found = BDCSPN(metric="euclidean", **options).predict(episodes)  # type: ignore[arg-type]
    other = LaplacianShot(weight=0, normalisation="count", **options).predict(episodes)  # type: ignore[arg-type]
    torch.testing.assert_close(found.probabilities, other.probabilities)


@settings(deadline=None, max_examples=10)
@given(seed=seeds)
def test_with_a_large_factor_over_the_members_one_shot_is_not_rectified(seed: int) -> None:
    episodes = draw(seed, shot=1)
    found = BDCSPN(weights="members", temperature=1e4, shift=False).predict(episodes)
    assert torch.equal(found.labels, SimpleShot().predict(episodes).labels)


def test_with_equal_weights_prototypes_are_means_of_their_members() -> None:
    """fewshot.md 9.11: with a small factor, the mean of the support and the queries that joined."""
    episodes = draw(3)
    found = BDCSPN(transform="UN", weights="members", temperature=1e-9, shift=False, metric="euclidean")
    for i, (support, labels, query) in enumerate(as_arrays(episodes, "UN")):
        means = oracle.class_means(support, labels, 3)
        joined = [max(range(3), key=lambda k: oracle.cosine(q, means[k])) for q in query]
        both = [*zip(labels, support, strict=True), *zip(joined, query, strict=True)]
        prototypes = [sum(x for y, x in both if y == k) / sum(y == k for y, _ in both) for k in range(3)]
        expected = [min(range(3), key=lambda k: float(((q - prototypes[k]) ** 2).sum())) for q in query]
        assert found.predict(episodes).labels[i].tolist() == expected


def test_moved_queries_change_nothing() -> None:
    """The shift takes back any displacement that all queries share."""
    episodes = draw(4)
    away = dataclasses.replace(episodes, query=episodes.query + 3)
    for strategy in (BDCSPN(transform="UN"), BDCSPN(transform="UN", metric="euclidean", weights="members")):
        torch.testing.assert_close(strategy.predict(away).probabilities, strategy.predict(episodes).probabilities)


def test_rotations_change_nothing() -> None:
    episodes = draw(9)
    away = turned(episodes)
    for strategy in (BDCSPN(), BDCSPN.as_published()):
        torch.testing.assert_close(strategy.predict(away).probabilities, strategy.predict(episodes).probabilities)


def test_a_class_that_attracts_no_point_keeps_its_mean() -> None:
    """fewshot.md 2.4: the public code drops the row and shifts the class indices."""
    support = torch.tensor([[[1.0, 0.02], [1.0, -0.02], [1.0, 0.01], [-0.2, 1.0], [0.9, 0.5], [0.9, -0.5]]])
    labels = torch.tensor([[0, 0, 1, 1, 2, 2]])
    query = torch.tensor([[[1.0, 0.0], [0.9, 0.51]]])
    strategy = BDCSPN.as_published(transform="UN", shift=False)
    found = strategy.predict(Episodes(support.double(), labels, query.double(), 3))
    options = {f.name: getattr(strategy, f.name) for f in dataclasses.fields(strategy) if f.name != "transform"}
    task = support[0].double().numpy(), labels[0].tolist(), query[0].double().numpy()
    torch.testing.assert_close(found.probabilities[0], torch.from_numpy(oracle.bd_cspn(*task, 3, **options)))


def test_ties_go_to_the_lowest_class() -> None:
    support = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    query = torch.tensor([[[1.0, 1.0], [2.0, 2.0]]])
    found = BDCSPN(transform="UN", shift=False).predict(Episodes(support, torch.tensor([[0, 1]]), query, 2))
    assert bool((found.probabilities[..., 0] > 0.6).all())  # they draw the prototype of class 0 alone


@pytest.mark.parametrize(
    ("field", "value"), [("temperature", 0.0), ("confident", 0), ("weights", "sum"), ("shift", "yes")]
)
def test_wrong_values_name_the_field(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        BDCSPN(**{field: value})  # type: ignore[arg-type]
