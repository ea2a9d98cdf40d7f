"""Transductive information maximisation (Boudiaf et al. 2020): prototypes fitted to a task by gradient.

With p_ik = softmax_k(-(temperature / 2) ||x_i - w_k||^2) and pbar the mean of p over the queries,

    loss(w) = cross_entropy mean_s(-log p_s,y_s) - marginal H(pbar) + conditional mean_q H(p_q),

H Shannon's entropy, or for alpha-TIM (Veilleux et al. 2021) Tsallis' of order alpha.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clustering.adam import Adam
from clustering.entropies import deformed_log
from fsl.episodes import Episodes, Predictions

_CACHED = 1 << 19
"""Numbers of features that are worked on at once: 2 MiB, a core's own cache. Every step reads them twice."""


@dataclass(frozen=True)
class InformationLoss:
    """The loss of B tasks as a function of their prototypes (B, K, D). The tasks do not see each other.

    Attributes:
        features: (B, S + Q, D), support first.
        targets: (B, K, S) one-hot support labels, 0 in padded rows.
        support_weights: (B, 1, S) 1 / number of support points, 0 in padded rows.
        query_weights: (B, 1, Q) likewise.
        temperature: > 0.
        cross_entropy: weight of the support's cross-entropy.
        marginal: weight of the entropy of the mean query, which is maximised.
        conditional: weight of the mean entropy of a query, which is minimised.
        alpha: order of both entropies, or (B, 1, 1) of them; 1.0 is Shannon's.
    """

    features: Tensor
    targets: Tensor
    support_weights: Tensor
    query_weights: Tensor
    temperature: float = 15.0
    cross_entropy: float = 0.1
    marginal: float = 1.0
    conditional: float = 0.1
    alpha: float | Tensor = 1.0

    @property
    def start(self) -> Tensor:
        """(B, K, D) the support means."""
        return torch.bmm(self.targets, self.features[:, : self.targets.shape[2]]) / self.targets.sum(2, keepdim=True)

    def log_probabilities(self, prototypes: Tensor) -> Tensor:
        """(B, K, S + Q) log p of every point. ||x_i||^2 is left out, which no class sees."""
        norms = torch.linalg.vecdot(prototypes, prototypes)[..., None]
        half = self.temperature / 2
        logits = torch.baddbmm(norms, prototypes, self.features.mT, beta=-half, alpha=2 * half)
        return torch.log_softmax(logits, dim=1)

    def value_and_gradient(self, prototypes: Tensor) -> tuple[Tensor, Tensor]:
        """(B,) the loss and (B, K, D) its gradient.

        By the logits z_ik the derivative is cross_entropy (p_sk - t_sk) / S for support points and, with g the
        derivative by p, p_qk (g_qk - <p_q, g_q>) / Q for queries; and dz_ik / dw_k = temperature (x_i - w_k).
        """
        support_size = self.targets.shape[2]
        log_p = self.log_probabilities(prototypes)
        p = log_p.exp()
        log_s, log_q = log_p[:, :, :support_size], deformed_log(log_p[:, :, support_size:], self.alpha)
        p_s, p_q = p[:, :, :support_size], p[:, :, support_size:]
        mean = (p_q * self.query_weights).sum(2, keepdim=True)
        log_mean = deformed_log(mean.clamp_min(1e-12).log(), self.alpha)

        # H = -<p, ln p>, and its derivative by p is -alpha ln p: one tensor serves both.
        g = self.marginal * log_mean - self.conditional * log_q
        along = (p_q * g).sum(1, keepdim=True)  # (B, 1, Q): summed over queries, marginal and conditional parts alike
        entropies = (along * self.query_weights).sum((1, 2))
        cross = (self.targets * log_s * self.support_weights).sum((1, 2))
        value = entropies - self.cross_entropy * cross

        derivative = torch.empty_like(p)
        torch.mul(p_s - self.targets, self.cross_entropy * self.support_weights, out=derivative[:, :, :support_size])
        torch.mul(p_q * (g - along), self.alpha * self.query_weights, out=derivative[:, :, support_size:])
        pull = torch.bmm(derivative, self.features)
        gradient = pull.addcmul_(derivative.sum(2, keepdim=True), prototypes, value=-1).mul_(self.temperature)
        return value, gradient

    def select(self, tasks: slice) -> "InformationLoss":
        """The loss of some tasks of the batch."""
        return replace(
            self,
            features=self.features[tasks],
            targets=self.targets[tasks],
            support_weights=self.support_weights[tasks],
            query_weights=self.query_weights[tasks],
            alpha=self.alpha[tasks] if isinstance(self.alpha, Tensor) else self.alpha,
        )


def maximise_information(
    episodes: Episodes,
    *,
    temperature: float,
    cross_entropy: float,
    marginal: float,
    conditional: float,
    alpha: float | Tensor = 1.0,
    learning_rate: float,
    iterations: int,
) -> Predictions:
    """Fit the prototypes of every task by Adam, from the support means on, and classify the queries by them.

    The tasks of a batch are summed in the loss, so each is fitted as it would be alone. Adam works by coordinates of
    the features, so this is no function of inner products, and a rotation of the features changes it slightly. A step
    costs 4 (S + Q) K D multiply-adds a task.

    Returns:
        Predictions with the loss as their trace; Adam does not promise that it falls in every step.
    """
    support, query = episodes.valid.to(episodes.dtype)[:, None].tensor_split([episodes.support_size], dim=2)
    loss = InformationLoss(
        features=episodes.features,
        targets=episodes.support_one_hot.mT.contiguous(),
        support_weights=support / support.sum(2, keepdim=True),
        query_weights=query / query.sum(2, keepdim=True),
        temperature=temperature,
        cross_entropy=cross_entropy,
        marginal=marginal,
        conditional=conditional,
        alpha=alpha,
    )
    tasks, points, dimension = loss.features.shape
    at_once = tasks if loss.features.is_cuda else max(1, _CACHED // (points * dimension))
    blocks = [slice(first, first + at_once) for first in range(0, tasks, at_once)]
    fitted = [_fit(loss.select(block), learning_rate, iterations) for block in blocks]
    probabilities, traces = (torch.cat(parts, dim=-1 if i else 0) for i, parts in enumerate(zip(*fitted, strict=True)))
    return Predictions(
        probabilities=probabilities[:, :, episodes.support_size :].mT,
        iterations=torch.full((tasks,), iterations, dtype=torch.int64, device=loss.features.device),
        trace=traces,
    )


def _fit(loss: InformationLoss, learning_rate: float, iterations: int) -> tuple[Tensor, Tensor]:
    """(b, K, S + Q) probabilities of a few tasks at the end, and (iterations, b) their losses before each step."""
    prototypes = loss.start
    adam = Adam(prototypes, learning_rate)
    values = prototypes.new_zeros(iterations, len(prototypes), dtype=torch.float64)
    for i in range(iterations):
        values[i], gradient = loss.value_and_gradient(prototypes)
        adam.step(gradient)
    return loss.log_probabilities(prototypes).exp(), values
