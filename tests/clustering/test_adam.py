"""Adam against torch's own."""

import torch

from clustering.adam import Adam


def test_it_is_torch_adam() -> None:
    target = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours, theirs = torch.zeros_like(target), torch.zeros_like(target, requires_grad=True)
    adam, reference = Adam(ours, 0.01), torch.optim.Adam([theirs], lr=0.01)
    for _ in range(50):
        adam.step(4 * (ours - target) ** 3)
        theirs.grad = 4 * (theirs.detach() - target) ** 3
        reference.step()
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=1e-14)
