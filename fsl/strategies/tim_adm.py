"""TIM-ADM: transductive information maximisation in closed-form steps (Boudiaf et al. 2020, section 2.3)."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from clustering.foundation.parameters import Above, AtLeast, validate
from clustering.optimiser.points import Points
from clustering.optimiser.pseudo_labels import adm
from fsl.episodes import Episodes, Predictions
from fsl.transforms import Transform


@dataclass(frozen=True)
class TIMADM:
    """TIM's loss with pseudo-labels q in between, by two closed-form steps in turn and without a learning rate.

    Minimises cross_entropy CE(support) - marginal H(mean q) + conditional mean_q <q, -log p> + mean_q KL(q || p), with
    p = softmax(-(temperature / 2) ||x - w||^2): q by `clustering.optimiser.pseudo_labels.adm`, and the prototypes by
    solving for a zero gradient with p held at the old ones (eq. 8):

        w_k <- sum_i c_i ((z_ik - p_ik) x_i + p_ik w_k) / sum_i c_i z_ik,

    z the support's labels and the queries' q, c_i = cross_entropy / S for support points and (1 + conditional) / Q for
    queries: a gradient step of length 1 / (temperature sum_i c_i z_ik). Works on inner products. Neither step is an
    exact minimiser, so the loss need not fall in every step, and 150 steps are short of convergence (1-shot).
    The marginal term is largest where all classes have equally many queries: it assumes balance.

    Where the features of a task lie close together, as those of L2N after a ReLU may, the prototypes move far
    from them until the steps are too long, the loss leaps up and a few classes take everything (of a Conv-4 on
    mini-ImageNet the accuracy fell from 47 to 31 %). So the loss is looked at every tenth step: where it rose since,
    the task goes back to where it was and takes half as long steps from then on. Elsewhere nothing is changed.

    Attributes:
        transform: per-feature transform; L2N in the public code. With CL2N the features do not lie close together.
        temperature: tau; 15 in the public code.
        cross_entropy: weight of the support's cross-entropy, a mean over the support; 0.1 in the public code.
        marginal: weight of the entropy of the mean query; 1 in the public code.
        conditional: weight of the queries' mean entropy; 0.1 in the public code.
        iterations: pairs of steps; 150 in the public code. 0 is SimpleShot.
        step: "guarded" as above, or "published", without looking back.
    """

    transductive: ClassVar[bool] = True
    assumes_balance: ClassVar[bool] = True

    transform: Transform = "CL2N"
    temperature: Annotated[float, Above(0)] = 15.0
    cross_entropy: Annotated[float, AtLeast(0)] = 0.1
    marginal: Annotated[float, AtLeast(0)] = 1.0
    conditional: Annotated[float, AtLeast(0)] = 0.1
    iterations: Annotated[int, AtLeast(0)] = 150
    step: Literal["guarded", "published"] = "guarded"

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def as_published(cls, **changes: Any) -> "TIMADM":
        """The settings of the public code."""
        return cls(**{"transform": "L2N", "step": "published", **changes})

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of the queries; the trace holds the loss wherever it was looked at. A step costs one
        product with the Gram matrix and two softmaxes."""
        episodes = episodes.transformed(self.transform)
        points, first = episodes.points, episodes.support_size
        support, query = self._point_weights(episodes)
        prototypes, weights, counting = episodes.class_means, support + query, query[:, 0]
        labelled = torch.zeros_like(prototypes)
        labelled[:, :, :first] = episodes.support_one_hot.mT * support[:, :, :first]
        guard = _Guard()
        for step in range(self.iterations):
            log_p = self._log_probabilities(points, prototypes)
            if self.step == "guarded" and step % _LOOK == 0:
                prototypes, log_p = guard.look(prototypes, log_p, self._loss(log_p, labelled, query))
            q = adm(log_p.mT, marginal=self.marginal, conditional=self.conditional, weights=counting).mT
            members = torch.addcmul(labelled, q, query, out=q)
            old = log_p.exp_().mul_(weights)
            mass = members.sum(2, keepdim=True)
            new = members.sub_(old).addcmul_(old.sum(2, keepdim=True), prototypes).div_(mass)
            prototypes = new if guard.length is None else torch.lerp(prototypes, new, guard.length)
        log_p = self._log_probabilities(points, prototypes)
        if self.step == "guarded":
            _, log_p = guard.look(prototypes, log_p, self._loss(log_p, labelled, query))
        return Predictions(
            probabilities=log_p[:, :, first:].exp().mT,
            iterations=torch.full((len(log_p),), self.iterations, dtype=torch.int64, device=log_p.device),
            trace=torch.stack(guard.losses).double() if guard.losses else None,
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

    def _loss(self, log_p: Tensor, labelled: Tensor, query: Tensor) -> Tensor:
        """(B,) TIM's loss, without pseudo-labels."""
        p = log_p.exp() * (query / (1 + self.conditional))
        mean = p.sum(2)
        entropies = self.marginal * torch.xlogy(mean, mean).sum(1) - self.conditional * (p * log_p).sum((1, 2))
        return entropies - (labelled * log_p).sum((1, 2))


_LOOK = 10
"""Steps from one look at the loss to the next. The first few may well raise it on their way to a lower one."""


@dataclass
class _Guard:
    """Where each task had its lowest loss of those that were looked at, and how long its steps are now.

    Attributes:
        losses: (B,) of each look, what was taken back left out.
        kept: prototypes and log-probabilities of the last look.
        length: (B, 1, 1) share of a step that is taken; None while it is 1 for all.
    """

    losses: list[Tensor] = field(default_factory=list)
    kept: tuple[Tensor, Tensor] | None = None
    length: Tensor | None = None

    def look(self, prototypes: Tensor, log_p: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
        """The prototypes and log-probabilities to go on from: these, or where the loss rose those of the last look."""
        if self.kept is not None:
            before = self.losses[-1]
            rose = ~(loss <= before + 1e-5 * (1 + before.abs()))  # also where it is no number any more
            if bool(rose.any()):
                back = rose[:, None, None]
                length = torch.ones_like(prototypes[:, :1, :1]) if self.length is None else self.length
                self.length = torch.where(back, 0.5 * length, length)
                loss = torch.where(rose, before, loss)
                prototypes, log_p = torch.where(back, self.kept[0], prototypes), torch.where(back, self.kept[1], log_p)
        self.losses.append(loss)
        self.kept = prototypes, log_p.clone()
        return prototypes, log_p
