"""Episodes that gather their features from the bank on demand."""

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from clustering.optimiser.points import Features, Gram, Points
from fsl.episodes import LARGEST_GRAM, Episodes
from fsl.features.bank import FeatureBank
from fsl.tasks import Tasks
from fsl.transforms import Transform, unit_features

if TYPE_CHECKING:
    from fsl.features.pictures import Pictures

_CACHED = 1 << 18
"""Values gathered at once: 1 MiB, so that they are still in a core's cache when their products are computed."""


class BankText(NamedTuple):
    """Class names of a bank.

    Attributes:
        features: (C, D) raw features of the class names.
        scale: logit scale.
        logits: (N, C) scale times the cosines between the points of the bank and the class names.
    """

    features: Tensor
    scale: float
    logits: Tensor

    @classmethod
    def of(cls, bank: FeatureBank, device: str | torch.device) -> "BankText | None":
        """The class names of a bank on a device; None if it has none."""
        if bank.text is None:
            return None
        text = bank.text.to(device)
        logits = unit_features(bank.features.to(device)) @ unit_features(text).mT
        return cls(text, bank.logit_scale, logits.mul_(bank.logit_scale))


class GatheredEpisodes(Episodes):
    """Episodes of tasks over a bank, which gather features when a strategy reads them.

    Inner products are computed a few tasks at a time, while the features of these tasks are in the processor's cache.
    The features of the whole batch are only copied for strategies that read them.
    """

    def __init__(
        self,
        bank: Tensor,
        tasks: Tasks,
        transform: Transform,
        base_mean: Tensor | None = None,
        pictures: "Pictures | None" = None,
        text: "BankText | None" = None,
    ) -> None:
        """Create episodes.

        Args:
            bank: (N, D) checked features, with `transform` already applied.
            tasks: tasks over the bank.
            transform: the transform of the features.
            base_mean: (D,) mean of the raw base-class features.
            pictures: the images of the whole bank.
            text: class names of the bank and their similarity to its points; None without class names.
        """
        rows = torch.cat([tasks.support, tasks.query], dim=1)
        vars(self).update(
            bank=bank,
            rows=rows.to(bank.device),
            support_labels=tasks.support_labels.to(bank.device),
            way=tasks.way,
            support_mask=None if tasks.support_mask is None else tasks.support_mask.to(bank.device),
            query_mask=None if tasks.query_mask is None else tasks.query_mask.to(bank.device),
            base_mean=base_mean,
            transform=transform,
            trusted=True,
            pictures=None if pictures is None else pictures.of_tasks(rows),
            made={},
        )
        if text is not None:
            classes, query = tasks.classes.to(bank.device), self.rows[:, self.support_size :]
            vars(self).update(
                text=self._keep("text", text.features[classes]),
                logit_scale=text.scale,
                log_prior=self._keep(
                    "log_prior", text.logits[query[:, :, None], classes[:, None, :]].log_softmax(dim=2)
                ),
            )
        for name in ("bank", "rows", "support_labels", "support_mask", "query_mask", "base_mean"):
            if getattr(self, name) is not None:
                self._keep(name, getattr(self, name))

    bank: Tensor
    rows: Tensor
    made: dict[str, tuple[Tensor, int]]

    def changed(self) -> list[str]:
        """Names of shared tensors that a strategy has modified in place."""
        return [name for name, (tensor, version) in self.made.items() if _version(tensor) != version]

    def transformed(self, transform: Transform) -> Episodes:
        return self if transform == self.transform else self._laid_out().transformed(transform)

    def with_prior(self, prior: Tensor) -> Episodes:
        return self._laid_out().with_prior(prior)

    def _laid_out(self) -> Episodes:
        """Ordinary episodes with gathered features."""
        plain = Episodes(**{field.name: getattr(self, field.name) for field in fields(Episodes)})
        if self.named:
            vars(plain)["log_prior"] = self.log_prior
        return plain

    @property
    def query_size(self) -> int:
        return self.rows.shape[1] - self.support_size

    @property
    def dimension(self) -> int:
        return self.bank.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.bank.dtype

    @cached_property
    def features(self) -> Tensor:
        return self._keep("features", self._gathered(self.rows))

    @cached_property
    def support(self) -> Tensor:
        return self._part("support", slice(0, self.support_size))

    @cached_property
    def query(self) -> Tensor:
        return self._part("query", slice(self.support_size, None))

    @cached_property
    def points(self) -> Points:
        size = self.rows.shape[1]
        if size > LARGEST_GRAM:
            return Features(self.features)
        products = self.bank.new_empty(len(self.rows), size, size)
        dimension = self.bank.shape[1]
        at_once = len(self.rows) if self.bank.is_cuda else max(1, _CACHED // (size * dimension))
        buffer = self.bank.new_empty(min(at_once, len(self.rows)) * size, dimension)
        for rows, out in zip(torch.split(self.rows, at_once), torch.split(products, at_once), strict=True):
            features = torch.index_select(self.bank, 0, rows.flatten(), out=buffer[: rows.numel()]).view(
                len(rows), size, dimension
            )
            torch.bmm(features, features.mT, out=out)
        return Gram(self._keep("points", products))

    def _part(self, name: str, part: slice) -> Tensor:
        """Some of the features; with many points, a view of the only copy."""
        if self.rows.shape[1] > LARGEST_GRAM:
            return self.features[:, part]
        return self._keep(name, self._gathered(self.rows[:, part]))

    def _keep(self, name: str, tensor: Tensor) -> Tensor:
        self.made[name] = (tensor, _version(tensor))
        return tensor

    def _gathered(self, rows: Tensor) -> Tensor:
        return self.bank.index_select(0, rows.flatten()).view(*rows.shape, self.bank.shape[1])


def _version(tensor: Tensor) -> int:
    """Count of changes in place; tensors made under `torch.inference_mode` have none."""
    return -1 if tensor.is_inference() else tensor._version
