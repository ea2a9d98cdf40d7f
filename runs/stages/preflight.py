"""Check whether evaluations are possible, before hours of training and before images are written."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from clustering.foundation.errors import InputError
from runs.config.configs import EvaluateConfig
from runs.stages.banks import stored_bank
from runs.stages.checkpoints import weights_of
from runs.stages.given_features import given_bank
from runs.stages.lineage import Lineage, images_of, labels_of
from runs.stages.stage import Workspace

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Decoded
    from fsl.benchmarks.images import ImageSet
    from fsl.features.bank import FeatureBank
    from fsl.samplers.drawn import Sampler
    from fsl.tasks import TaskSource


def preflight(batches: Sequence[tuple[Lineage, Sequence[EvaluateConfig]]], work: Workspace) -> None:
    """Check that given weights fit the network, that the classes suffice for the tasks, and that there are class names
    where they are required; then decode the images.

    Args:
        batches: configs that differ in their strategies only, with their lineage.
        work: where features, images and runs are.
    """
    from fsl.benchmarks.benchmark import Decoded

    store, _, progress, _ = work = work._replace(force=False)
    splits: dict[tuple[str, str], FeatureBank | ImageSet | Decoded] = {}
    for lineage, configs in batches:
        config, named = configs[0], False
        if config.features is not None:
            bank = given_bank(config.feature_files, config.split, config.prompt)
            tasks, named = tasks_of(config, bank), bank.text is not None
        else:
            if config.given:
                weights_of(config, lineage, work)  # before images are read
            part = lineage.part(config.split)
            place = (part.source, part.split)
            if place not in splits:
                splits[place] = stored_bank(lineage.bank_of(part), store) or labels_of(part, store, progress)
            tasks = tasks_of(config, splits[place])
        for each in configs:
            _check_names(each, tasks, named=named)
    for lineage, configs in batches:
        if lineage.feature_files:
            continue
        part = lineage.part(configs[0].split)
        found = splits[part.source, part.split]
        if isinstance(found, Decoded):
            splits[part.source, part.split] = images_of(part.benchmark, part.split, store, progress, found)


def _check_names(config: EvaluateConfig, tasks: "TaskSource", *, named: bool) -> None:
    """Raise InputError unless a strategy has the labelled examples or class names that it requires."""
    strategy, sampler = f"strategy={config.strategy.name}", f"sampler={config.sampler.name}"
    empty, use = tasks.block(0).support.shape[1] == 0, getattr(config.strategy.kind, "text", "none")
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


def tasks_of(config: EvaluateConfig, split: "FeatureBank | ImageSet | Decoded") -> "TaskSource":
    """Return the tasks of a config on the labels and class names of a split; raises InputError if these classes cannot
    give them, or give fewer than requested."""
    import torch

    sampler = cast("Sampler", config.sampler.build())
    try:
        tasks = sampler.tasks(torch.as_tensor(split.labels), config.seed, split.class_names)
        tasks.blocks(config.count(tasks.limit))
    except InputError as error:
        benchmark = (config.target if config.crosses else config.benchmark).build() if config.features is None else None
        division = getattr(benchmark, "division", None)
        more = "" if division is None else f". {division()}"
        raise InputError(f"sampler={config.sampler.name} on the {config.split} classes: {error}{more}") from error
    return tasks
