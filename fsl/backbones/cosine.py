"""A classifier on top of a backbone that compares directions."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class CosineClassifier(nn.Linear):
    """Logits are 10 times the cosines between features and class weights (Gidaris and Komodakis, CVPR 2018).

    Training ignores the length of features, as few-shot strategies on normalised features do.
    """

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return 10 * functional.linear(functional.normalize(input.float()), functional.normalize(self.weight))
