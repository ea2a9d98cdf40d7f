"""Adam against torch's own."""

import torch

from clustering.optimiser.adam import Adam


def test_it_is_torch_adam() -> None:
    target = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours, theirs = torch.zeros_like(target), torch.zeros_like(target, requires_grad=True)
    adam, reference = Adam(ours, 0.01), torch.optim.Adam([theirs], lr=0.01)
    for _ in range(50):
        adam.step(4 * (ours - target) ** 3)
        theirs.grad = 4 * (theirs.detach() - target) ** 3
        reference.step()
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=1e-14)


def test_entries_together_turn_with_their_axes() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    turn = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=torch.float64)).Q
    plain, turned = torch.zeros_like(target), torch.zeros_like(target)
    sides = [(Adam(plain, 0.01, together=True), target), (Adam(turned, 0.01, together=True), target @ turn)]
    for _ in range(50):
        for adam, goal in sides:
            adam.step(adam.parameters - goal)
    torch.testing.assert_close(plain @ turn, turned)
    alone = torch.zeros(3, 1, dtype=torch.float64)
    first, second = Adam(alone, 0.01, together=True), Adam(alone.clone(), 0.01)
    for adam in (first, second):
        for _ in range(9):
            adam.step(adam.parameters - target[:, :1])
    torch.testing.assert_close(first.parameters, second.parameters)
