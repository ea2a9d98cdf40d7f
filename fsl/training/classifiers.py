"""Classifiers on top of the backbone in base training; they are discarded after it."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

ClassifierName = Literal["linear", "cosine"]
SCALE = 10.0  # of the cosines; the initial value of Gidaris and Komodakis, who train it


class CosineClassifier(nn.Linear):
    """Logits are 10 times the cosines between features and class weights (Gidaris and Komodakis, CVPR 2018).

    Training ignores the length of features, as few-shot strategies on normalised features do.

    Shapes: (N, features) -> (N, classes), float32 in -10..10.
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return SCALE * functional.linear(functional.normalize(input.float()), functional.normalize(self.weight))


def create_classifier(name: ClassifierName, features: int, classes: int) -> nn.Linear:
    """A classifier with random initial weights from torch's global generator."""
    kind = CosineClassifier if name == "cosine" else nn.Linear
    return kind(features, classes)
