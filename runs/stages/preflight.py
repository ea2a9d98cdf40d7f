"""Check whether evaluations are possible, before hours of training and before images are written."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress
from runs.cache import Store
from runs.config.configs import EvaluateConfig
from runs.stages.banks import BANK
from runs.stages.checkpoints import checkpoint
from runs.stages.given_features import given_bank
from runs.stages.lineage import Lineage, Part, images_of, labels_of
from runs.track import Tracker

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Decoded
    from fsl.benchmarks.images import ImageSet
    from fsl.features.bank import FeatureBank
    from fsl.samplers.sampler import Sampler
    from fsl.tasks import TaskSource


def preflight(
    batches: Sequence[tuple[Sequence[EvaluateConfig], Lineage]], store: Store, tracker: Tracker, progress: Progress
) -> None:
    """Check that given weights fit the network, that the classes suffice for the tasks, and that there are class names
    where they are required; then decode the images.

    Args:
        batches: configs that differ in their strategies only, with their lineage.
        store: where features and images are.
        tracker: where runs are recorded.
        progress: progress of decoding.

    Raises:
        InputError: one of the checks fails.
    """
    from fsl.benchmarks.benchmark import Decoded

    splits: dict[tuple[str, str], FeatureBank | ImageSet | Decoded] = {}
    read: list[tuple[Part, Decoded]] = []
    for configs, lineage in batches:
        config = configs[0]
        if config.features is not None:
            bank = given_bank(config.feature_files, config.split, config.prompt)
            _check_names(configs, tasks_of(config, bank), named=bank.text is not None)
            continue
        if config.given:
            checkpoint(config, store, tracker, progress=progress, lineage=lineage)  # before images are read
        part = lineage.part(config.split)
        place = (part.source, part.split)
        if place not in splits:
            found = _bank(lineage.bank(config.split), store) or labels_of(part, store, progress)
            splits[place] = found
            if isinstance(found, Decoded):
                read.append((part, found))
        _check_names(configs, tasks_of(config, splits[place]), named=False)
    for part, found in read:
        images_of(part.benchmark, part.split, store, progress, found)


def _check_names(configs: Sequence[EvaluateConfig], tasks: "TaskSource", *, named: bool) -> None:
    """Check that each strategy has the labelled examples or class names that it requires.

    Raises:
        InputError: it has not.
    """
    empty = tasks.block(0).support.shape[1] == 0
    for config in configs:
        strategy, sampler = f"strategy={config.strategy.name}", f"sampler={config.sampler.name}"
        use = getattr(config.strategy.kind, "text", "none")
        if use == "required" and not named:
            raise InputError(f"{strategy} requires class names: give features=FILE with features of the class names")
        if empty and use == "none":
            raise InputError(
                f"{strategy} does not use class names, but the tasks of {sampler} have no labelled examples; set "
                "shot=1, or choose a strategy that uses class names, such as laplacianshot"
            )
        if empty and not named:
            raise InputError(
                f"the tasks of {sampler} have no labelled examples, and there are no class names; set shot=1, or give "
                "features=FILE with features of the class names"
            )


def _bank(key: str, store: Store) -> "FeatureBank | None":
    """Return the features with that key, if they exist and are complete."""
    from fsl.features.bank import FeatureBank

    entry = store.find("features", key)
    if entry:
        with contextlib.suppress(InputError):  # a damaged bank is computed again later
            return FeatureBank.load(entry.path / BANK)
    return None


def tasks_of(config: EvaluateConfig, split: "FeatureBank | ImageSet | Decoded") -> "TaskSource":
    """Return the tasks of a config on the labels and class names of a split.

    Raises:
        InputError: the split cannot give these tasks, or gives fewer than requested.
    """
    import torch

    sampler = cast("Sampler", config.sampler.build())
    try:
        tasks = sampler.tasks(torch.as_tensor(split.labels), config.seed_of_tasks, split.class_names)
        tasks.blocks(config.count(tasks.limit))
    except InputError as error:
        division = None if config.features is not None else getattr(_benchmark(config), "division", None)
        more = "" if division is None else f". {division()}"
        raise InputError(f"sampler={config.sampler.name} on the {config.split} classes: {error}{more}") from error
    return tasks


def _benchmark(config: EvaluateConfig) -> object:
    """Return the benchmark of the tasks."""
    return (config.target if config.crosses else config.benchmark).build()
