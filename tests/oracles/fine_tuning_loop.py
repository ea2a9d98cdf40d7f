"""Transductive fine-tuning as one would write it for one task: a copied network, torch's Adam, all images at once."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional


def fine_tuned(
    network: nn.Module,
    support: Tensor,
    labels: Tensor,
    query: Tensor,
    way: int,
    *,
    weight: float,
    learning_rate: float,
    iterations: int,
) -> tuple[Tensor, list[float]]:
    """(Q, way) probabilities of (Q, C, H, W) normalised images, and the loss before each step."""
    network = copy.deepcopy(network).eval()
    images = torch.cat([support, query])

    def unit_features() -> Tensor:
        found = functional.relu(network(images))
        return found / found.norm(dim=1, keepdim=True).clamp_min(1e-12)

    head = nn.Linear(unit_features().shape[1], way)
    with torch.no_grad():
        features = functional.relu(network(images))[: len(support)]
        for k in range(way):
            mean = features[labels == k].mean(0)
            head.weight[k] = mean / mean.norm().clamp_min(1e-12)
        head.bias.zero_()
    optimiser = torch.optim.Adam([*network.parameters(), *head.parameters()], lr=learning_rate)
    losses = []
    for _ in range(iterations):
        logits = head(unit_features())
        p = logits[len(support) :].softmax(1)
        entropy = -(p * p.log()).sum(1).mean()
        loss = functional.cross_entropy(logits[: len(support)], labels) + weight * entropy
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        return head(unit_features())[len(support) :].softmax(1), losses
