"""The middle of a picture, enlarged: how the papers show pictures to a network that is trained already."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class CenterCrop(nn.Module):
    """Enlarges images by 1 / share and cuts out their middle, of the size that they had.

    At 84 pixels and a share of 0.875 this is torchvision's Resize(96) and CenterCrop(84), the test-time transform of
    SimpleShot, LaplacianShot and TIM; bilinear, on numbers that are not rounded in between. (Their public code does so
    for base means and features, but not for the validation that chooses an epoch.)

    Args:
        share: of a side that remains, in 0..1; timm calls it crop_pct.

    Shapes: (N, C, H, W) -> (N, C, H, W).
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        tall, wide = round(height / self.share), round(width / self.share)
        larger = functional.interpolate(images, size=(tall, wide), mode="bilinear", align_corners=False)
        top, left = round((tall - height) / 2), round((wide - width) / 2)
        cut = larger[:, :, top : top + height, left : left + width]
        return cut.contiguous(memory_format=torch.channels_last)
