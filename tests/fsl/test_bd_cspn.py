"""BD-CSPN against loops, and its identities."""

import dataclasses

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.episodes import Episodes
from fsl.strategies.bd_cspn import BDCSPN
from tests.oracles import heads_loops as oracle
from tests.oracles.small_tasks import as_arrays, draw

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
