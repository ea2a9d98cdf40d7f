"""The few-shot network as other programs write it, and the files in which they leave its weights."""

from collections import OrderedDict

import numpy as np
import timm
import torch
from safetensors.torch import save_file
from torch import nn


class Theirs(nn.Module):
    """The network of few-shot learning as most programs write it: biases, ReLU before pooling, names of its own."""

    def __init__(self, depth, channels=3, classes=None):
        super().__init__()
        for i in range(depth):
            convolution = nn.Conv2d(64 if i else channels, 64, 3, padding=1)
            setattr(self, f"conv{i + 1}", nn.Sequential(convolution, nn.BatchNorm2d(64)))
        self.depth = depth
        if classes:
            self.fc = nn.Linear(64, classes)
        generator = torch.Generator().manual_seed(depth)
        for name, tensor in self.state_dict().items():
            if tensor.is_floating_point():
                drawn = torch.rand(tensor.shape, generator=generator)
                tensor.copy_(drawn + 0.5 if name.endswith(("1.weight", "running_var")) else (drawn - 0.5) / 4)

    def forward(self, x):
        for i in range(self.depth):
            x = getattr(self, f"conv{i + 1}")(x).relu()
            x = nn.functional.max_pool2d(x, 2) if i < 4 else x
        return x.flatten(1)


def conv4(depth=4, **options):
    return Theirs(depth, **options).eval()


def of_timm(names, folder):
    """A file of random weights of each network, with its classifier."""
    torch.manual_seed(0)
    return {name: as_pth(timm.create_model(name, pretrained=False).state_dict(), folder / name) for name in names}


def prefixed(state, prefix):
    return OrderedDict((prefix + key, value) for key, value in state.items())


def as_npz(state, path):
    np.savez(path.with_suffix(".npz"), **{key: value.numpy() for key, value in state.items()})
    return path.with_suffix(".npz")


def as_safetensors(state, path):
    save_file(dict(state), path.with_suffix(".safetensors"))
    return path.with_suffix(".safetensors")


def as_pth(state, path):
    torch.save(dict(state), path.with_suffix(".pth"))
    return path.with_suffix(".pth")


def as_legacy_tar(state, path):
    beside = {"epoch": 3, "arch": "conv4", "state_dict": prefixed(state, "module."), "best_prec1": 0.5}
    beside["optimizer"] = {"state": {0: {"momentum_buffer": torch.zeros(3)}}, "param_groups": [{"lr": 0.1}]}
    torch.save(beside, path.with_suffix(".pth.tar"), _use_new_zipfile_serialization=False)
    return path.with_suffix(".pth.tar")


def as_double(state, path):
    return as_pth({key: value.double() if value.is_floating_point() else value for key, value in state.items()}, path)
