"""TIM-ADM: transductive information maximisation in closed-form steps (Boudiaf et al. 2020, section 2.3)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clustering.parameters import Above, AtLeast, validate
from clustering.points import Points
from clustering.pseudo_labels import adm
from fsl.episodes import Episodes, Predictions
from fsl.transforms import Transform


@dataclass(frozen=True)
class TIMADM:
    """TIM's loss with pseudo-labels q in between, by two closed-form steps in turn and without a learning rate.

    Minimises cross_entropy CE(support) - marginal H(mean q) + conditional mean_q <q, -log p> + mean_q KL(q || p), with
    p = softmax(-(temperature / 2) ||x - w||^2): q by `clustering.pseudo_labels.adm`, and the prototypes by solving
    for a zero gradient with p held at the old ones (eq. 8):

        w_k <- sum_i c_i ((z_ik - p_ik) x_i + p_ik w_k) / sum_i c_i z_ik,

    z the support's labels and the queries' q, c_i = cross_entropy / S for support points and (1 + conditional) / Q for
    queries: a gradient step of length 1 / (temperature sum_i c_i z_ik). Works on inner products. Neither step is an
    exact minimiser, so the loss need not fall in every step, and 150 steps are short of convergence (1-shot).
    The marginal term is largest where all classes have equally many queries: it assumes balance.

    Attributes:
        transform: per-feature transform; L2N in the public code.
        temperature: tau; 15 in the public code.
        cross_entropy: weight of the support's cross-entropy, a mean over the support; 0.1 in the public code.
        marginal: weight of the entropy of the mean query; 1 in the public code.
        conditional: weight of the queries' mean entropy; 0.1 in the public code.
        iterations: pairs of steps; 150 in the public code. 0 is SimpleShot.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = True

    transform: Transform = "L2N"
    temperature: Annotated[float, Above(0)] = 15.0
    cross_entropy: Annotated[float, AtLeast(0)] = 0.1
    marginal: Annotated[float, AtLeast(0)] = 1.0
    conditional: Annotated[float, AtLeast(0)] = 0.1
    iterations: Annotated[int, AtLeast(0)] = 150

    def __post_init__(self) -> None:
        validate(self)

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries. A step costs one product with the Gram matrix and two softmaxes."""
        episodes = episodes.transformed(self.transform)
        points, first = episodes.points, episodes.support_size
        support, query = self._point_weights(episodes)
        prototypes, weights, counting = episodes.class_means, support + query, query[:, 0]
        labelled = torch.zeros_like(prototypes)
        labelled[:, :, :first] = episodes.support_one_hot.mT * support[:, :, :first]
        for _ in range(self.iterations):
            log_p = self._log_probabilities(points, prototypes)
            q = adm(log_p.mT, marginal=self.marginal, conditional=self.conditional, weights=counting).mT
            members = torch.addcmul(labelled, q, query, out=q)
            old = log_p.exp_().mul_(weights)
            mass = members.sum(2, keepdim=True)
            prototypes = members.sub_(old).addcmul_(old.sum(2, keepdim=True), prototypes).div_(mass)
        log_p = self._log_probabilities(points, prototypes)
        return Predictions(
            probabilities=log_p[:, :, first:].exp().mT,
            iterations=torch.full((len(log_p),), self.iterations, dtype=torch.int64, device=log_p.device),
        )

    def _point_weights(self, episodes: Episodes) -> tuple[Tensor, Tensor]:
        """(B, 1, S + Q) c of the support points, 0 elsewhere, and of the queries likewise; 0 in padded rows."""
        valid = episodes.valid.to(episodes.dtype)[:, None]
        support, query = valid.clone(), valid.clone()
        support[:, :, episodes.support_size :] = 0
        query[:, :, : episodes.support_size] = 0
        support *= self.cross_entropy / support.sum(2, keepdim=True)
        query *= (1 + self.conditional) / query.sum(2, keepdim=True)
        return support, query

    def _log_probabilities(self, points: Points, prototypes: Tensor) -> Tensor:
        """(B, K, S + Q) log p. ||x_i||^2 is left out, which no class sees."""
        products = points.inner(prototypes)
        norms = torch.linalg.vecdot(products, prototypes)[..., None]
        return torch.log_softmax(products.sub_(norms, alpha=0.5).mul_(self.temperature), dim=1)
