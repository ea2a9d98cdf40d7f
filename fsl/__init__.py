"""Transductive few-shot learning: tasks, features, strategies and their evaluation."""

import clustering  # noqa: F401 - makes torchvision importable beside a CPU build of torch, before timm imports it
