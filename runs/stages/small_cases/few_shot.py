"""The small case of an evaluation: its strategy on a few tasks of its sampler, and its network on a few images."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import nn

from clustering.foundation.errors import InputError
from clustering.foundation.streams import stream
from fsl.backbones import OWN, create_backbone
from fsl.episodes import Episodes, Predictions, Strategy
from fsl.evaluation.episodic import evaluate
from fsl.features.bank import FeatureBank, extract
from fsl.features.center_crop import CenterCrop, enlarged
from runs.config.configs import EvaluateConfig
from runs.record.exports.outcome import Numbers

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Benchmark

TASKS, IMAGES = 4, 2
CLASSES, DIMENSIONS = 10, 64
EACH = 40  # samples of a class; with support there are SPARE more than in the support
SPARE = 100
NOISE, TEXT_NOISE, SHARED = 2.0, 1.0, 6.0  # deviations from class means; length of what all texts share


def few_shot_case(config: EvaluateConfig) -> Numbers:
    """Return the numbers of the small case; a strategy that is tuned has the first of its values.

    Raises:
        InputError: there is none: the strategy trains networks on images, or the tasks are in a file.
    """
    if config.needs_images:
        raise InputError(f"strategy {config.strategy.name} trains on images, of which there is no small case")
    numbers = _of_network(config)
    strategy = next(config.strategy.points()).build()
    found = []
    refused: InputError | None = None
    for named in (False, True) if config.features is not None else (False,):
        try:
            found.append(_of_strategy(config, strategy, named=named))
        except InputError as error:  # a strategy that needs class names, or cannot use them
            refused = error
    if refused and not found:
        raise refused
    names = {name for one in found for name in one}
    return numbers | {name: tuple(value for one in found for value in one.get(name, ())) for name in names}


class _Observed:
    """A strategy whose mean probabilities are kept: of each class, in each task."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.entropy: list[float] = []
        self.probabilities: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def predict(self, episodes: Episodes) -> Predictions:
        found = self._strategy.predict(episodes)
        p = found.probabilities.double()
        self.entropy += torch.special.entr(p).sum(2).mean(1).tolist()
        self.probabilities += p.mean(1).flatten().tolist()
        return found


def _of_strategy(config: EvaluateConfig, strategy: Strategy, *, named: bool) -> dict[str, tuple[float, ...]]:
    bank = _bank(config.sampler.options, named=named)
    tasks = config.sampler.build().tasks(bank.labels, 0, bank.class_names)
    observed, count = _Observed(strategy), min(TASKS, tasks.limit or TASKS)
    result = evaluate({"": cast(Strategy, observed)}, bank, tasks, count)[""]
    audited = evaluate({"": strategy}, bank, tasks, count, audits=config.audit)[""].audits if config.audit else {}
    audits = {f"audit_{name}": tuple(map(float, values)) for name, values in audited.items()}
    return {
        "accuracy": tuple(map(float, result.accuracies)),
        "entropy": tuple(observed.entropy),
        "probabilities": tuple(observed.probabilities),
        **audits,
    }


def _bank(tasks: Mapping[str, Any], *, named: bool) -> FeatureBank:
    """Features of overlapping classes, enough for the tasks; with those of class names, if `named`."""
    classes = max(CLASSES, *(int(tasks.get(name) or 0) for name in ("way", "classes_min", "classes_max")))
    shot = max(int(tasks.get(name, 0)) for name in ("shot", "shot_max"))
    each = shot + max(SPARE, int(tasks.get("query", 0))) if shot else EACH
    random = stream(0, "small case", "features")
    means = random.standard_normal((classes, DIMENSIONS))
    rows = means[:, None] + NOISE * random.standard_normal((classes, each, DIMENSIONS))
    texts = means + TEXT_NOISE * random.standard_normal(means.shape) + SHARED
    features = torch.from_numpy(rows.reshape(-1, DIMENSIONS)).float().relu()
    return FeatureBank(
        features,
        torch.arange(classes).repeat_interleave(each),
        tuple(f"class {k}" for k in range(classes)),
        base_mean=features[::3].mean(0),
        text=torch.from_numpy(texts).float() if named else None,
    )


def _of_network(config: EvaluateConfig) -> dict[str, tuple[float, ...]]:
    """Mean and deviation of the features that a network of this project, with random weights, gives to random images;
    empty for given features and other networks."""
    if config.features is not None or config.backbone.plugin not in OWN:
        return {}
    benchmark = cast("Benchmark", config.benchmark.build())
    channels, side = benchmark.channels, benchmark.size
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = create_backbone(config.backbone.build(), channels=channels, size=side)
    pixels = stream(0, "small case", "images").integers(0, 256, (IMAGES, channels, side, side), dtype=np.uint8)
    features = extract(
        network if config.crop_pct is None else nn.Sequential(CenterCrop(side), network),
        _images(pixels),
        mean=benchmark.mean,
        std=benchmark.std,
        size=enlarged(side, config.crop_pct),
        device="cpu",
    ).double()
    return {"features": (float(features.mean()), float(features.std()))}


def _images(pixels: np.ndarray[Any, Any]) -> Any:
    from fsl.benchmarks.images import ImageSet

    return ImageSet(torch.from_numpy(pixels), torch.zeros(len(pixels), dtype=torch.int64), ("",), "")
