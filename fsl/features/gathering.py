"""Episodes of tasks over a feature bank."""

from typing import NamedTuple

import torch
from torch import Tensor

from fsl.episodes import LOGIT_SCALE, Episodes
from fsl.features.bank import FeatureBank
from fsl.features.pictures import Pictures, TaskPictures
from fsl.tasks import Tasks
from fsl.transforms import Transform, unit_features


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


def gathered(
    bank: Tensor,
    tasks: Tasks,
    transform: Transform,
    base_mean: Tensor | None = None,
    pictures: Pictures | None = None,
    text: BankText | None = None,
) -> Episodes:
    """Episodes of tasks over a bank.

    Args:
        bank: (N, D) checked features, with `transform` already applied.
        tasks: tasks over the bank.
        transform: the transform of the features.
        base_mean: (D,) mean of the raw base-class features.
        pictures: the images of the whole bank.
        text: class names of the bank and their similarity to its points; None without class names.
    """
    rows = torch.cat([tasks.support, tasks.query], dim=1)
    place, first = rows.to(bank.device), tasks.support.shape[1]
    features = bank.index_select(0, place.flatten()).view(*place.shape, bank.shape[1])
    classes = tasks.classes.to(bank.device)
    episodes = Episodes(
        support=features[:, :first],
        support_labels=tasks.support_labels.to(bank.device),
        query=features[:, first:],
        way=tasks.way,
        support_mask=None if tasks.support_mask is None else tasks.support_mask.to(bank.device),
        query_mask=None if tasks.query_mask is None else tasks.query_mask.to(bank.device),
        base_mean=base_mean,
        transform=transform,
        trusted=True,
        pictures=None if pictures is None else TaskPictures(pictures, rows),
        text=None if text is None else text.features[classes],
        logit_scale=LOGIT_SCALE if text is None else text.scale,
    )
    if text is not None:  # from the raw features
        logits = text.logits[place[:, first:, None], classes[:, None, :]]
        episodes.knowing(log_prior=logits.log_softmax(dim=2))
    return episodes.knowing(features=features)


def versions(episodes: Episodes) -> dict[str, int]:
    """How often each tensor of the episodes was changed in place; tensors made under `torch.inference_mode` do not
    count."""
    tensors = {name: value for name, value in vars(episodes).items() if isinstance(value, Tensor)}
    if "points" in vars(episodes):
        tensors["points"] = vars(episodes)["points"].values
    return {name: tensor._version for name, tensor in tensors.items() if not tensor.is_inference()}
