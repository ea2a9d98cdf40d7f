"""Strategies with class names: against loop-written oracles, published numbers, and what the objective must satisfy."""

import csv
import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.class_names import levels
from fsl.episodes import Episodes, check_evidence
from fsl.evaluation.episodic import evaluate
from fsl.extra.adaptive import Adaptive
from fsl.features.bank import FeatureBank
from fsl.samplers.drawn import NamedClasses
from fsl.strategies import STRATEGIES
from fsl.strategies.em_dirichlet import FIT, EMDirichlet
from fsl.strategies.lp_plus_plus import LPPlusPlus
from fsl.strategies.refined import Refined
from fsl.strategies.simpleshot import SimpleShot
from fsl.strategies.ss_text_u import SSTextU
from fsl.strategies.stata import StatA
from fsl.strategies.tim_adm import TIMADM
from fsl.strategies.tip_adapter import TipAdapter
from fsl.strategies.transclip import TransCLIP
from fsl.strategies.zero_shot import ZeroShot
from fsl.strategies.zlap import ZLaP
from tests.oracles import class_names_loops as loops
from tests.oracles.small_tasks import with_constants

OPTIONAL, REQUIRED = (
    [name for name in STRATEGIES.table if getattr(STRATEGIES.load(name), "text", "none") == use]
    for use in ("optional", "required")
)
CONFIGS = Path(__file__).parents[2] / "configs"


def draw(
    seed: int, way: int = 4, shot: int = 0, queries: int = 12, dim: int = 8, batch: int = 3, left_out: int = 0
) -> Episodes:
    """Tasks whose class names lie beside their classes, displaced alike; in double precision. Of the first labelled
    examples, some may be left out."""
    generator = torch.Generator().manual_seed(seed)
    noise = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    centres, gap = noise(batch, way, dim), 2 * noise(dim)
    labels = torch.arange(way).repeat_interleave(shot).expand(batch, -1)
    hidden = torch.randint(0, way, (batch, queries), generator=generator)
    pick = lambda index: centres.gather(1, index[..., None].expand(-1, -1, dim))  # noqa: E731
    support = pick(labels) + 0.5 * noise(batch, way * shot, dim)
    query = pick(hidden) + 0.5 * noise(batch, queries, dim)
    text = 0.7 * centres + gap + 0.3 * noise(batch, way, dim)
    return Episodes(support[:, left_out:], labels[:, left_out:], query, way, text=text, logit_scale=5.0)


EM = {"variant": "published", "sharpness": 3.0}
LATA = yaml.safe_load((CONFIGS / "strategy" / "lata.yaml").read_text()) | {"n_neighbors": 6}
AS_THE_LOOPS = {  # the strategy, how its tasks are drawn, and the loops of (support, labels, query, text)
    "transclip": (TransCLIP.as_published(), {}, lambda *task: loops.transclip(*task, 5.0, 0.02, 3)),
    "transclip, labels": (TransCLIP.as_published(), {"shot": 2}, lambda *task: loops.transclip(*task, 5.0, 0.02, 3)),
    "stata": (StatA.as_published(), {}, lambda _, __, *task: loops.stata(*task, 5.0, 1.0, 3)),
    "em_dirichlet": (
        with_constants(EMDirichlet, assignments="soft", **EM),
        {"way": 5},
        lambda _, __, *task: loops.em_dirichlet(*task, 3.0, 1.0, EMDirichlet.rounds["soft"], 30, False),
    ),
    "hard em_dirichlet": (
        with_constants(EMDirichlet, assignments="hard", **EM),
        {"way": 5},
        lambda _, __, *task: loops.em_dirichlet(*task, 3.0, 1.0, EMDirichlet.rounds["hard"], 30, True),
    ),
    "zlap": (with_constants(ZLaP, texts=3), {"queries": 15}, lambda _, __, *task: loops.zlap(*task, 5, 3, 5.0, 0.3)),
    "tip_adapter": (TipAdapter(alpha=2.0), {"shot": 4}, lambda *task: loops.tip_adapter(*task, 5.0, 2.0, 5.5)),
    "ss_text_u": (SSTextU(), {"shot": 2, "queries": 15}, lambda *task: loops.ss_text_u(*task, 5.0, 3)),
    "ss_text_u, a class without labels": (
        SSTextU(),
        {"shot": 2, "queries": 15, "left_out": 2},
        lambda *task: loops.ss_text_u(*task, 5.0, 3),
    ),
    "lata": (
        STRATEGIES.load(LATA.pop("base"))(**LATA),
        {"queries": 30},
        lambda _, __, *task: loops.lata(*task, 5.0, 6, 0.35),
    ),
}


def tasks_of(episodes: Episodes) -> list[tuple[np.ndarray, list[int], np.ndarray, np.ndarray]]:
    """Support, labels, query and text of each task."""
    assert episodes.text is not None
    parts = zip(episodes.support, episodes.support_labels, episodes.query, episodes.text, strict=True)
    return [(support.numpy(), labels.tolist(), query.numpy(), text.numpy()) for support, labels, query, text in parts]


@pytest.mark.parametrize("name", AS_THE_LOOPS)
@pytest.mark.parametrize("limit", [1024, 1])
def test_it_is_the_loop(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As published, if there is such a form; as small tasks and as large ones."""
    monkeypatch.setitem(FIT, "published", (30, 0.0))
    monkeypatch.setattr("fsl.episodes.LARGEST_GRAM", limit)
    strategy, drawn, loop = AS_THE_LOOPS[name]
    episodes = draw(1, **drawn)
    found = strategy.predict(episodes).probabilities
    for rows, task in zip(found, tasks_of(episodes), strict=True):
        np.testing.assert_allclose(rows.numpy(), loop(*task), atol=1e-5 if "ss_text_u" in name else 1e-6)


@pytest.mark.parametrize("shot", [1, 4])
def test_lp_plus_plus_as_published_is_the_loop(shot: int) -> None:
    episodes = draw(9, shot=shot)
    found = with_constants(LPPlusPlus, variant="published", max_iter=40).predict(episodes)
    assert found.trace is not None
    for i, task in enumerate(tasks_of(episodes)):
        expected, losses = loops.lp_plus_plus(*task, 40)
        np.testing.assert_allclose(found.probabilities[i].numpy(), expected, atol=1e-8)
        np.testing.assert_allclose(found.trace[:-1, i].numpy(), losses, atol=1e-10)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), depth=st.integers(1, 3))
def test_levels_of_names_sum_the_probabilities_of_their_classes(seed: int, depth: int) -> None:
    random = np.random.default_rng(seed)
    names = np.unique(["/".join(map(str, random.integers(0, 3, random.integers(1, depth + 1)))) for _ in range(6)])
    chances = random.dirichlet(np.ones(len(names)), 4)
    found = levels(names, chances)
    assert found[-1].names.tolist() == names.tolist()
    np.testing.assert_array_equal(found[-1].probabilities, chances)
    for d, level in enumerate(found, 1):
        for place, group in enumerate(level.names):
            own = [k for k, name in enumerate(names) if "/".join(name.split("/")[:d]) == group]
            np.testing.assert_allclose(level.probabilities[:, place], chances[:, own].sum(axis=1))
            assert set(level.of_class[own]) == {place}


def test_refined_uses_the_probabilities_of_the_inductive_strategy() -> None:
    episodes = draw(11, shot=2)
    prior = LPPlusPlus().predict(episodes).probabilities
    expected = StatA().predict(dataclasses.replace(episodes, prior=prior)).probabilities
    assert torch.equal(Refined().predict(episodes).probabilities, expected)


@pytest.mark.parametrize("name", [*OPTIONAL, *REQUIRED])
def test_zero_shot_tasks_and_a_prior_instead_of_text(name: str) -> None:
    """Every strategy that takes class names works without any labelled example, and most from probabilities alone."""
    kind = STRATEGIES.load(name)
    strategy = kind(transform="L2N") if "transform" in {field.name for field in dataclasses.fields(kind)} else kind()
    episodes = draw(6, queries=20)
    result = strategy.predict(episodes)
    assert bool(result.probabilities.isfinite().all())
    prior = torch.softmax(episodes.log_prior, dim=2)
    assert float((result.labels == prior.argmax(2)).double().mean()) > 0.5
    if name not in ("zlap", "lp_plus_plus", "ss_text_u", "refined"):  # they need features of the class names
        probable = dataclasses.replace(episodes, text=None, prior=prior)
        assert bool(strategy.predict(probable).probabilities.isfinite().all())


def test_what_is_required_is_said() -> None:
    named = draw(8, shot=1)
    with pytest.raises(InputError, match="requires class names"):
        check_evidence(ZeroShot(), dataclasses.replace(named, text=None))
    with pytest.raises(InputError, match="no labelled example"):
        check_evidence(TIMADM(), draw(8))
    check_evidence(TIMADM(), named)
    bank = FeatureBank(torch.rand(20, 3), torch.arange(2).repeat(10), ("cat", "dog"), base_mean=torch.zeros(3))
    with pytest.raises(InputError, match="simpleshot: a class has no labelled example"):
        evaluate({"simpleshot": SimpleShot()}, bank, NamedClasses(queries=5).tasks(bank.labels), 3)
    with pytest.raises(InputError, match="text must be"):
        dataclasses.replace(named, text=named.text[:, :2])  # type: ignore[index]
    with pytest.raises(InputError, match="logit_scale"):
        dataclasses.replace(named, logit_scale=0.0)
    prior = torch.full((3, 12, 4), 0.25, dtype=torch.float64)
    prior[1, 3] = 1.0
    with pytest.raises(InputError, match="query 3"):
        dataclasses.replace(named, prior=prior)


def _whurs(name: str) -> dict[str, np.ndarray]:
    place = os.environ.get("TRANSDUCE_DATA")
    if not place or not (Path(place) / "vlm" / f"whurs19_{name}.npz").is_file():
        pytest.skip("TRANSDUCE_DATA has no vlm/whurs19 features")
    with np.load(Path(place) / "vlm" / f"whurs19_{name}.npz") as file:
        return dict(file)


def _unit(rows: np.ndarray) -> torch.Tensor:
    """Unit rows in the stored type, then float32, as in the public code."""
    stored = torch.from_numpy(rows)
    return (stored / stored.norm(dim=-1, keepdim=True)).float()


ENCODERS = {
    ("CLIP", "RN50"): "clip_rn50",
    ("CLIP", "ViT-B-32"): "clip_vitb32",
    ("CLIP", "ViT-L-14"): "clip_vitl14",
    ("GeoRSCLIP", "ViT-B-32"): "georsclip_vitb32",
    ("RemoteCLIP", "ViT-B-32"): "remoteclip_vitb32",
    ("SkyCLIP50", "ViT-L-14"): "skyclip50_vitl14",
}


@pytest.mark.slow
def test_every_published_accuracy_on_whurs19() -> None:
    """All accuracies of TransCLIP as published are the printed ones, and those of zero-shot within two images."""
    off: dict[str, list[int]] = {"zero_shot": [], "transclip": []}
    place = Path(os.environ.get("TRANSDUCE_DATA", "."))
    _whurs("clip_rn50")
    with (place.parent / "published" / "rs_transclip.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        data = _whurs(ENCODERS[row["model"], row["architecture"]])
        images, labels = _unit(data["images"])[None], torch.from_numpy(data["labels"])
        if row["prompt"] == "average":
            text = _unit(data["text"])[None]
        else:
            text = _unit(data["text_by_prompt"][list(data["prompts"]).index(row["prompt"])])[None]
        none = torch.zeros(1, 0, dtype=torch.int64)
        episodes = Episodes(images[:, :0], none, images, text.shape[1], text=text)
        for strategy, column in ((ZeroShot(), "zero_shot"), (TransCLIP.as_published(), "transclip")):
            right = int((strategy.predict(episodes).labels[0] == labels).sum())
            off[column].append(abs(right - round(float(row[column]) / 100 * len(labels))))
    assert len(rows) == 112
    assert max(off["transclip"]) == 0
    assert max(off["zero_shot"]) <= 2
    assert sum(wrong > 0 for wrong in off["zero_shot"]) <= 2


def test_adaptive_is_above_zero_shot_with_few_and_with_all_classes() -> None:
    data = _whurs("clip_vitb32")
    images, labels, text = _unit(data["images"]), torch.from_numpy(data["labels"]), _unit(data["text"])
    few = torch.isin(labels, torch.tensor([2, 7, 11]))
    for chosen in (few, torch.ones_like(few)):
        query = images[chosen][None]
        none = torch.zeros(1, 0, dtype=torch.int64)
        episodes = Episodes(query[:, :0], none, query, len(text), text=text[None])
        accuracy = lambda strategy: float((strategy.predict(episodes).labels[0] == labels[chosen]).float().mean())  # noqa: B023, E731
        assert accuracy(Adaptive()) > accuracy(ZeroShot()) + 0.05
