"""The experiments of the papers, line by line."""

import functools
from typing import NamedTuple

import pytest

from fsl.backbones import OWN
from fsl.benchmarks.augmentation import Augmentation
from runs.config import groups
from runs.config.configs import EvaluateConfig, TrainConfig, parse
from runs.config.groups import option
from runs.tables.paper import paper_table


class Trained(NamedTuple):
    """A base training: benchmark, network, epochs, epochs at which the rate falls, images a batch."""

    benchmark: str
    backbone: str
    epochs: int = 90
    milestones: tuple[int, ...] = (45, 66)
    batch: int = 256


PAPERS = {
    "mini_resnet18": Trained("mini", "resnet18_84"),
    "mini_mobilenet": Trained("mini", "mobilenet_84"),
    "mini_wrn": Trained("mini", "wrn28_10", epochs=120, milestones=(60, 90), batch=128),
    "mini_densenet": Trained("mini", "densenet121_84", batch=100),
    "mini_to_cub": Trained("mini", "resnet18_84"),
    "tiered_resnet18": Trained("tiered", "resnet18_84", milestones=(30, 60)),
    "tiered_mobilenet": Trained("tiered", "mobilenet_84", milestones=(30, 60)),
    "tiered_wrn": Trained("tiered", "wrn28_10", milestones=(30, 60), batch=128),
    "tiered_densenet": Trained("tiered", "densenet121_84", milestones=(30, 60), batch=100),
    "cub_resnet18": Trained("cub", "resnet18_84"),
    "cub_wrn": Trained("cub", "wrn28_10", batch=128),
    "inat_resnet18": Trained("inat", "resnet18_84", milestones=(30, 60)),
    "inat_resnet50": Trained("inat", "resnet50_84", milestones=(30, 60)),
    "inat_wrn": Trained("inat", "wrn28_10", milestones=(30, 60), batch=128),
}
OTHERS = {"cifar_fs": Trained("cifar_fs", "resnet12"), "fc100": Trained("fc100", "resnet12")}
ALIKE = {
    "learning_rate": 0.1,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "classifier": "linear",
    "label_smoothing": 0.1,
    "schedule": "step",
    "warmup": 0.0,
    "crop": None,
    "jitter": 1.0,
    "validation_tasks": 500,
}


@functools.cache
def of(name):
    found = parse(EvaluateConfig, [f"experiment={name}"])
    (trained,) = {config.training_config().to_yaml(): config.training_config() for config in found}.values()
    return trained, found


@pytest.mark.parametrize("name", [*PAPERS, *OTHERS])
def test_base_training(name):
    trained, _ = of(name)
    told, options = {**PAPERS, **OTHERS}[name], trained.training.options
    assert (
        Trained(
            trained.benchmark.name,
            trained.backbone.name,
            options["epochs"],
            options["milestones"],
            options["batch_size"],
        )
        == told
    )
    assert options.items() >= ALIKE.items()
    every = 90 if told.benchmark == "inat" else 4  # of iNat the last epoch is kept, which alone is validated
    assert options["validate_every"] == every
    assert told.backbone in OWN


@pytest.mark.parametrize("name", [*PAPERS, *OTHERS])
def test_training_is_the_same_where_benchmark_and_network_alone_are_named(name):
    """So that the papers' tables, which name no training but for its precision, stand on the same weights."""
    trained, _ = of(name)
    names = [f"benchmark={trained.benchmark.name}", f"backbone={trained.backbone.name}"]
    (alone,) = parse(TrainConfig, [*names, *(f"trainer.precision={one}" for one in trained.trainer.values())])
    assert alone == trained


@pytest.mark.parametrize("name", PAPERS)
def test_pictures(name):
    """84 pixels, ImageNet's mean and deviation; when training, a crop, a flip, jitter of 0.4; when tested, 84 of 96."""
    trained, found = of(name)
    kind = option("benchmark", trained.benchmark.name).kind
    assert (kind.channels, kind.size) == (3, 84)
    assert (kind.mean, kind.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    jitter = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4}
    assert kind.augmentation == Augmentation(crop=0.08, flip=True, **jitter)
    assert {config.crop_pct for config in found} == {84 / 96}


@pytest.mark.parametrize("name", [name for name in [*PAPERS, *OTHERS] if not name.startswith("inat")])
def test_tasks_and_tuning(name):
    """10,000 tasks, 5-way, 1 and 5 shots, 15 queries a class; weights and neighbours tuned."""
    _, found = of(name)
    shapes = {(c.sampler.name, *(c.sampler.options[key] for key in ("way", "shot", "query"))) for c in found}
    assert shapes == {("balanced", 5, 1, 15), ("balanced", 5, 5, 15)}
    assert {(config.tasks, config.tuning, config.split, config.base_mean) for config in found} == {
        (10_000, "papers", "novel", "source")
    }
    assert {config.target.name for config in found} == {"cub" if name == "mini_to_cub" else "same"}
    tuned = {config.strategy.name: dict(config.strategy.grids) for config in found}
    assert tuple(tuned["laplacianshot"]["n_neighbors"]) == (3, 5, 10)
    assert tuple(tuned["laplacianshot"]["weight"]) == (0.1, 0.3, 0.5, 0.7, 0.8, 1.0, 1.2, 1.5)
    assert tuned["simpleshot"] == {}


@pytest.mark.parametrize("name", [name for name in PAPERS if name.startswith("inat")])
def test_the_task_of_inat(name):
    """One task of all classes; weight 1 and 10 neighbours, nothing tuned; plain support means, three transforms."""
    _, found = of(name)
    assert {(config.sampler.name, config.tuning, config.count(1)) for config in found} == {("whole_split", None, 1)}
    assert {config.sampler.options["support"] for config in found} == {"first"}  # as their authors divide them
    laplacian = [config.strategy for config in found if config.strategy.name != "simpleshot"]
    assert {strategy.name for strategy in laplacian} == {"laplacianshot_plain_prototypes"}
    assert {(strategy.options["weight"], strategy.options["n_neighbors"]) for strategy in laplacian} == {(1.0, 10)}
    assert {config.strategy.options["transform"] for config in found} == {"UN", "L2N", "CL2N"}
    assert len(found) == 6


FEW_SHOT = ["thesis/4.1", "thesis/4.2", "thesis/4.3", "thesis/4.4", "thesis/4.5", "slk_fewshot/II", "slk_fewshot/III"]


@pytest.mark.parametrize("table", FEW_SHOT)
def test_every_cell_of_the_papers_stands_on_the_training_of_an_experiment(table):
    trainings = [of(name)[0] for name in PAPERS]
    cells = [cell.few_shot for cell in paper_table(table).cells if cell.few_shot]
    assert cells
    for config in cells:
        assert config.training_config() in trainings
        assert config.crop_pct == 84 / 96
        assert config.training.name in groups.names("training")
    elsewhere = paper_table(f"{table}@glyphs").cells
    assert {cell.few_shot.crop_pct for cell in elsewhere if cell.few_shot} == {None}
