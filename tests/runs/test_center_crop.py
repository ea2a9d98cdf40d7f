"""The middle of pictures for trained networks: torchvision's transform, banks of their own, and no other identity."""

import pytest
import torch
from torchvision.transforms import v2

from fsl.features.pictures import network_input
from runs.stages.lineage import Lineage, Lineages
from runs.stages.pipeline import features


@pytest.mark.parametrize(("size", "share"), [(84, 0.875), (32, 0.8), (28, 0.5), (16, 1.0)])
def test_resize_and_centre_crop_of_torchvision(size, share):
    images = torch.rand(3, 3, size, size) * 255
    resized = v2.functional.resize(images, [int(size / share)] * 2, antialias=True)
    want = v2.functional.center_crop(resized, [size, size])
    found = network_input(images, (0, 0, 0), (1, 1, 1), size, crop_pct=share)
    torch.testing.assert_close(found, want / 255, rtol=0, atol=1e-5)


def test_features_are_of_the_middle_and_whole_pictures_stay_what_they_were(trained, tracker, configs, notes):
    (whole,), (middle,) = configs(), configs("crop_pct=0.875")
    before = Lineage.of(whole)
    assert "crop_pct" not in whole.result_keys()
    assert trained.peek("features", before.bank("novel")), "made before there was a choice"
    assert before.checkpoint == Lineage.of(middle).checkpoint
    assert before.bank("novel") != Lineage.of(middle).bank("novel")
    lineages = Lineages()
    assert lineages.of(whole).bank("novel") != lineages.of(middle).bank("novel")
    seen, bank = features(whole, "novel", trained, tracker), features(middle, "novel", trained, tracker, progress=notes)
    assert not torch.allclose(seen.features, bank.features)
    assert not torch.allclose(seen.base_mean, bank.base_mean), "the mean is of pictures that are shown alike"
    assert "the middle 0.875" in bank.provenance["transform"]
    assert "extracting features" in notes.bars
