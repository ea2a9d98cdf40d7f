"""TIM-ADM: transductive information maximisation in closed-form steps (Boudiaf et al. 2020, section 2.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from clustering.foundation.parameters import Above, AtLeast
from clustering.optimiser.points import Points
from clustering.optimiser.pseudo_labels import adm
from fsl.episodes import Episodes, Predictions
from fsl.strategies.shared.method import PublishedMethod, Variant
from fsl.transforms import Transform


@dataclass(frozen=True)
class TIMADM(PublishedMethod):
    """TIM's loss with auxiliary pseudo-labels q, minimised by alternating closed-form steps without a learning rate.

    Minimises cross_entropy CE(support) - marginal H(mean q) + conditional mean_q <q, -log p> + mean_q KL(q || p), with
    p = softmax(-(temperature / 2) ||x - w||^2): q by `clustering.optimiser.pseudo_labels.adm`, and the prototypes by
    setting the gradient to zero with p fixed at the old prototypes (eq. 8):

        w_k <- sum_i c_i ((z_ik - p_ik) x_i + p_ik w_k) / sum_i c_i z_ik,

    where z are the support labels and the queries' q, and c_i = cross_entropy / S for support points and
    (1 + conditional) / Q for queries. This is a gradient step of length 1 / (temperature sum_i c_i z_ik), and uses
    inner products only. Neither step is an exact minimiser, so the loss may increase in single steps; 150 steps do not
    converge (1-shot). The marginal term is largest for balanced queries: the method assumes balance.

    If the features of a task are close together, as L2N features after a ReLU may be, the prototypes move far away from
    them, the steps become too long, the loss jumps up, and a few classes get all queries (with a Conv-4 on
    mini-ImageNet, the accuracy dropped from 47 to 31 %). The corrected form therefore checks the loss at every tenth
    step: if it has increased, the task returns to the previous check and halves its step size from then on. Other tasks
    are not affected.

    Attributes:
        transform: per-feature transform; L2N in the public code. CL2N features are not close together.
        temperature: tau; 15 in the public code.
        cross_entropy: weight of the support's cross-entropy, a mean over the support; 0.1 in the public code.
        marginal: weight of the entropy of the mean query; 1 in the public code.
        conditional: weight of the queries' mean entropy; 0.1 in the public code.
        max_iter: pairs of steps; 150 in the public code. 0 is SimpleShot.
        variant: "corrected", with the checks of the loss described above, or "published", without.
    """

    assumes_balance: ClassVar[bool] = True
    published: ClassVar[Mapping[str, Any]] = {"transform": "L2N", "variant": "published"}

    transform: Transform = "CL2N"
    temperature: Annotated[float, Above(0)] = 15.0
    cross_entropy: Annotated[float, AtLeast(0)] = 0.1
    marginal: Annotated[float, AtLeast(0)] = 1.0
    conditional: Annotated[float, AtLeast(0)] = 0.1
    max_iter: Annotated[int, AtLeast(0)] = 150
    variant: Variant = "corrected"

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the loss at each check. A step costs one product with the
        Gram matrix and two softmaxes."""
        episodes = episodes.transformed(self.transform)
        points, first = episodes.points, episodes.support_size
        support, query = self._point_weights(episodes)
        prototypes, weights, counting = episodes.class_means, support + query, query[:, 0]
        labelled = torch.zeros_like(prototypes)
        labelled[:, :, :first] = episodes.support_one_hot.mT * support[:, :, :first]
        guard = _Guard()
        for step in range(self.max_iter):
            log_p = self._log_probabilities(points, prototypes)
            if self.variant == "corrected" and step % _CHECK_INTERVAL == 0:
                prototypes, log_p = guard.check(prototypes, log_p, self._loss(log_p, labelled, query))
            q = adm(log_p.mT, marginal=self.marginal, conditional=self.conditional, weights=counting).mT
            members = torch.addcmul(labelled, q, query, out=q)
            old = log_p.exp_().mul_(weights)
            mass = members.sum(2, keepdim=True)
            new = members.sub_(old).addcmul_(old.sum(2, keepdim=True), prototypes).div_(mass)
            prototypes = new if guard.length is None else torch.lerp(prototypes, new, guard.length)
        log_p = self._log_probabilities(points, prototypes)
        if self.variant == "corrected":
            _, log_p = guard.check(prototypes, log_p, self._loss(log_p, labelled, query))
        return Predictions(
            probabilities=log_p[:, :, first:].exp().mT,
            iterations=torch.full((len(log_p),), self.max_iter, dtype=torch.int64, device=log_p.device),
            trace=torch.stack(guard.losses).double() if guard.losses else None,
        )

    def _point_weights(self, episodes: Episodes) -> tuple[Tensor, Tensor]:
        """(B, 1, S + Q) weights c of the support points (0 for queries), and of the queries (0 for support points); 0
        in padded rows."""
        query = episodes.query_counts[:, None]
        support = episodes.valid.to(episodes.dtype)[:, None] - query
        support *= self.cross_entropy / support.sum(2, keepdim=True)
        query *= (1 + self.conditional) / query.sum(2, keepdim=True)
        return support, query

    def _log_probabilities(self, points: Points, prototypes: Tensor) -> Tensor:
        """(B, K, S + Q) log p. ||x_i||^2 is omitted, because it is the same for all classes."""
        products = points.inner(prototypes)
        norms = torch.linalg.vecdot(products, prototypes)[..., None]
        return torch.log_softmax(products.sub_(norms, alpha=0.5).mul_(self.temperature), dim=1)

    def _loss(self, log_p: Tensor, labelled: Tensor, query: Tensor) -> Tensor:
        """(B,) TIM's loss, without pseudo-labels."""
        p = log_p.exp() * (query / (1 + self.conditional))
        mean = p.sum(2)
        entropies = self.marginal * torch.xlogy(mean, mean).sum(1) - self.conditional * (p * log_p).sum((1, 2))
        return entropies - (labelled * log_p).sum((1, 2))


_CHECK_INTERVAL = 10
"""Steps between two checks of the loss. The first few steps may increase it temporarily."""


@dataclass
class _Guard:
    """The state of each task at its last check, and its current step size.

    Attributes:
        losses: (B,) losses of each check, without rejected ones.
        kept: prototypes and log-probabilities at the last check.
        length: (B, 1, 1) fraction of the full step; None if it is 1 for all tasks.
    """

    losses: list[Tensor] = field(default_factory=list)
    kept: tuple[Tensor, Tensor] | None = None
    length: Tensor | None = None

    def check(self, prototypes: Tensor, log_p: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
        """The prototypes and log-probabilities to continue from: the given ones, or those of the last check for tasks
        whose loss has increased."""
        if self.kept is not None:
            before = self.losses[-1]
            rose = ~(loss <= before + 1e-5 * (1 + before.abs()))  # also true for NaN
            if bool(rose.any()):
                back = rose[:, None, None]
                length = torch.ones_like(prototypes[:, :1, :1]) if self.length is None else self.length
                self.length = torch.where(back, 0.5 * length, length)
                loss = torch.where(rose, before, loss)
                prototypes, log_p = torch.where(back, self.kept[0], prototypes), torch.where(back, self.kept[1], log_p)
        self.losses.append(loss)
        self.kept = prototypes, log_p.clone()
        return prototypes, log_p
