"""Published networks on the real mini-ImageNet: the accuracies that were measured on them without this project."""

import numpy as np
import pytest
import torch

from fsl.benchmarks.papers import MiniImageNet
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.features.pictures import Pictures
from fsl.samplers.drawn import Balanced
from fsl.strategies.simpleshot import SimpleShot
from fsl.weights.foreign import import_backbone

pytestmark = pytest.mark.slow

# Nearest centroid on 5-way tasks of the first pictures of each novel class, in %: L2N and CL2N of 1 shot, of 5 shots,
# CL2N with the mean of these very pictures; measured with numpy, +-0.4 for the tasks.
MEASURED = {
    "simpleshot_protonet_conv4_5shot.npz": ("conv4", 60, (39.0, 46.5), (62.2, 63.1)),
    "rap_mini_protonet_conv4_5shot.npz": ("conv4", 40, (43.0, 45.7), (59.1, 60.0)),
    "rap_mini_protonet_conv6_5shot.npz": ("conv6", 40, (46.9, 48.5), (62.4, 62.4)),
}


@pytest.mark.parametrize("file", MEASURED)
def test_nearest_centroids_do_as_was_measured(reference_data, file):
    network, count, *measured = MEASURED[file]
    found = MiniImageNet(str(reference_data / "mini_imagenet")).read("novel")
    images = np.concatenate([found.images[first : first + count] for first in range(0, 12_000, 600)])
    labels = torch.arange(20).repeat_interleave(count)
    backbone = import_backbone(reference_data / "checkpoints" / file, network, channels=3, size=84)
    shown = Pictures(torch.from_numpy(images), backbone, MiniImageNet.mean, MiniImageNet.std, MiniImageNet.size)
    features = shown.features("cpu")
    bank = FeatureBank(features, labels, found.class_names, features.mean(0))
    for shot, wanted in zip((1, 5), measured, strict=True):
        tasks = Balanced(shot=shot).tasks(labels, 0, bank.class_names)
        strategies = {"L2N": SimpleShot(transform="L2N"), "CL2N": SimpleShot(transform="CL2N")}
        results = evaluate(strategies, bank, tasks, 500)
        assert [100 * result.accuracy for result in results.values()] == pytest.approx(wanted, abs=1.0)
