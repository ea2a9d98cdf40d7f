"""Tsallis entropies: the definition, the limit at 1, the derivative."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.optimiser.entropies import deformed_log
from tests.oracles.information_loops import entropy


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 100_000), alpha=st.sampled_from([0.3, 0.5, 1.0, 1.0001, 2.0, 5.0, 7.0]))
def test_the_entropy_is_minus_the_mean_deformed_log(seed: int, alpha: float) -> None:
    p = torch.softmax(torch.randn(5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64), 0)
    found = -(p * deformed_log(p.log(), alpha)).sum()
    torch.testing.assert_close(float(found), entropy(p.tolist(), alpha), rtol=1e-7, atol=1e-9)
    if alpha != 1:
        order = torch.tensor(alpha, dtype=torch.float64)
        torch.testing.assert_close(deformed_log(p.log(), order), deformed_log(p.log(), alpha))


def test_it_is_finite_at_zero_and_one() -> None:
    log_p = torch.tensor([-torch.inf, -1e4, 0.0])
    for alpha in (0.2, 1.0, 2.0, 7.0):
        assert bool(deformed_log(log_p, alpha).isfinite().all())
        assert float(deformed_log(log_p, alpha)[2]) == 0
