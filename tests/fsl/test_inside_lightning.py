"""Evaluation under `torch.inference_mode`, as in Lightning's validation."""

import numpy as np
import pytest
import torch

from clustering.foundation.errors import InputError
from fsl.backbones import create_backbone
from fsl.episodes import Episodes, Predictions
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank
from fsl.samplers.drawn import Balanced
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.tim_gd import EntropyMin


class Changing:
    """Changes the features of its episodes."""

    transductive, assumes_balance, text, transform = True, False, "none", "UN"

    def predict(self, episodes: Episodes) -> Predictions:
        episodes.query.zero_()
        return SimpleShot(transform="UN").predict(episodes)


def test_evaluation_is_the_same_under_inference_mode() -> None:
    def scores() -> dict[str, np.ndarray]:
        generator = torch.Generator().manual_seed(0)
        labels = torch.arange(6).repeat_interleave(20)
        features = torch.randn(120, 8, generator=generator) + 2 * torch.eye(8)[labels]
        bank = FeatureBank(features, labels, tuple("abcdef"))
        tasks = Balanced(way=5, query=10).tasks(labels, 0)
        strategies = {
            "simpleshot": SimpleShot(transform="UN"),
            "laplacianshot": LaplacianShot(transform="L2N"),
            "entropy_min": EntropyMin(transform="UN"),  # trains
        }
        return {name: found.accuracies for name, found in evaluate(strategies, bank, tasks, 20).items()}

    plain = scores()
    with torch.inference_mode():
        inside = scores()
    for name, accuracies in plain.items():
        np.testing.assert_array_equal(inside[name], accuracies)


def test_changed_episodes_are_noticed_under_inference_mode() -> None:
    with torch.inference_mode():
        labels = torch.arange(5).repeat_interleave(20)
        bank = FeatureBank(torch.randn(100, 8, generator=torch.Generator().manual_seed(0)), labels, tuple("abcde"))
        with pytest.raises(InputError, match=r"changes .*query.* of its episodes"):
            evaluate({"changing": Changing()}, bank, Balanced(query=10).tasks(labels, 0), 5)


def test_backbones_of_files(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class, and a function registered with timm; other callables are refused."""
    (tmp_path / "nets_of_mine.py").write_text(
        "from timm.models import register_model\n"
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    def __init__(self, in_chans):\n"
        "        super().__init__(nn.Conv2d(in_chans, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())\n"
        "@register_model\n"
        "def net_of_mine(pretrained=False, **options):\n"
        "    return Net(options['in_chans'])\n"
        "def other(in_chans):\n"
        "    return Net(in_chans)\n"
        "def resnet18(in_chans):\n"
        "    return Net(in_chans)\n"
        "class Passes(Net):\n"
        "    def __init__(self, **options):\n"
        "        super().__init__(options['in_chans'] + options['num_classes'])\n"
    )
    monkeypatch.chdir(tmp_path)
    for name in ("./nets_of_mine.py:Net", "nets_of_mine:Net", "./nets_of_mine.py:net_of_mine", "net_of_mine"):
        assert create_backbone(name, channels=2, size=9).feature_size == 5
    assert create_backbone("./nets_of_mine.py:Passes", channels=2, size=9).feature_size == 5
    for name in ("other", "resnet18"):  # timm has a resnet18, which is not this one
        with pytest.raises(InputError, match="neither a subclass"):
            create_backbone(f"./nets_of_mine.py:{name}", channels=2, size=9)
