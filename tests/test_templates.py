"""The templates of CONTRIBUTING.md are complete parts: each is imported and run."""

import importlib
from pathlib import Path

import numpy as np
import torch

from tests.fsl.every_strategy import assert_same_predictions, draw


def template(name: str):
    return importlib.import_module(f"tests.templates.{name}")


def test_contributing_names_every_template() -> None:
    project = Path(__file__).resolve().parents[1]
    text = (project / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = {path.name for path in (project / "tests" / "templates").glob("*.py")} - {"__init__.py"}
    assert names
    assert {name for name in names if f"tests/templates/{name}" not in text} == set()


def test_the_strategy_labels_queries_by_the_closest_example() -> None:
    episodes = draw(0, spread=0.1)
    found = template("strategy").Closest().predict(episodes).probabilities
    assert_same_predictions(found, template("strategy").Closest("UN").predict(episodes).probabilities)
    torch.testing.assert_close(found.sum(-1), torch.ones(found.shape[:2]))


def test_the_benchmark_reads_its_splits(tmp_path: Path) -> None:
    for split in ("base", "validation", "novel"):
        images = np.random.default_rng(0).integers(0, 256, (30, 1, 28, 28), dtype=np.uint8)
        names = np.array([f"{split} {k}" for k in range(3)])
        np.savez(tmp_path / f"{split}.npz", images=images, labels=np.arange(30) % 3, names=names)
    shapes = template("benchmark").Shapes(str(tmp_path))
    assert shapes.read("novel").images.shape == (30, 1, 28, 28)
    assert shapes.source() == template("benchmark").Shapes(str(tmp_path)).source()


def test_timm_makes_the_backbone() -> None:
    import timm

    template("backbone")
    network = timm.create_model("tiny", in_chans=1, num_classes=0)
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 16)


def test_the_sampler_draws_tasks_of_two_classes() -> None:
    labels = torch.arange(60) % 6
    tasks = template("sampler").TwoWays().tasks(labels, seed=0).first(50)
    assert set(map(int, tasks.support_labels.unique())) == {0, 1}


def test_the_data_set_has_rings() -> None:
    data = template("dataset").Rings(rings=2, points=10).read()
    radii = np.linalg.norm(data.values, axis=1)
    np.testing.assert_allclose(radii, data.labels + 1, rtol=1e-6)


def test_the_estimator_covers_all_points() -> None:
    points = np.random.default_rng(0).normal(size=(40, 3))
    model = template("estimator").FarthestFirst(5, random_state=0).fit(points)
    assert set(model.labels_) == set(range(5))


def test_the_objective_trains_a_classifier() -> None:
    from clustering.deep import SoftmaxClustering

    points = np.random.default_rng(0).normal(size=(60, 4))
    objective = f"{Path(template('objective').__file__)}:Sharpened"
    assert set(SoftmaxClustering(3, objective=objective, random_state=0).fit(points).labels_) <= {0, 1, 2}


def test_the_network_makes_features() -> None:
    assert template("network").narrow(1)(torch.zeros(2, 1, 8, 8)).shape == (2, 128)


def test_the_fair_method_gives_every_cluster_the_same_share() -> None:
    points, group = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    model = template("fair_method").EvenShares(2, random_state=0).fit(points, sensitive_features={"group": group})
    counts = np.array([[np.sum((model.labels_ == k) & (group == g)) for g in range(2)] for k in range(2)])
    assert (counts == 10).all()
