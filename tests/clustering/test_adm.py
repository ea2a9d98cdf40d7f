"""ADM pseudo-labels: agreement with loops, the exact stationary point, weights, classes far from every point."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.optimiser.pseudo_labels import adm
from tests.oracles import information_loops as oracle


def draw(seed: int, batch: int = 2, points: int = 7, classes: int = 3, scale: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(batch, points, classes, generator=generator, dtype=torch.float64)
    return torch.log_softmax(scores, dim=-1)


some_weights = {"marginal": st.floats(0, 10), "conditional": st.floats(0, 3), "divergence": st.floats(0.3, 3)}


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 100_000), **some_weights)
def test_it_agrees_with_loops(seed: int, **weights: float) -> None:
    log_p = draw(seed)
    found = adm(log_p, **weights)
    expected = [oracle.adm(task.exp().tolist(), **weights) for task in log_p]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(adm(log_p[0], **weights), found[0])


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 100_000), with_known=st.booleans(), **some_weights)
def test_a_prior_and_known_rows(seed: int, with_known: bool, **weights: float) -> None:
    """Corrections end where log q - a log p + r log(qbar / u) of an unknown row are alike; the closed form is near."""
    log_p = draw(seed)
    prior = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], dtype=torch.float64)
    mask = torch.arange(7).expand(2, -1) < (2 if with_known else 0)
    labels = torch.tensor([2, 0, 0, 0, 0, 0, 0]).expand(2, -1)
    q = adm(log_p, prior=prior, known=(mask, labels), corrections=500, **weights)
    a, r = 1 + weights["conditional"] / weights["divergence"], weights["marginal"] / weights["divergence"]
    residual = (q.log() - a * log_p + r * (q.mean(dim=-2) / prior).log()[:, None])[~mask]
    assert float((residual - residual.mean(-1, keepdim=True)).abs().max()) < 1e-6
    one_hot = torch.nn.functional.one_hot(labels, 3).double()
    assert torch.equal(q[mask], one_hot[mask])
    near = adm(log_p, prior=prior, known=(mask, labels), **weights)
    assert torch.equal(near[mask], one_hot[mask])
    alone = adm(log_p[0], prior=prior[0], known=(mask[0], labels[0]), **weights)
    torch.testing.assert_close(alone, near[0])
