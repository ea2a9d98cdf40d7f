"""What every few-shot strategy must satisfy, also with unusual tasks and settings, and how a wrong one is named."""

import dataclasses
import inspect
import re
import typing
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from clustering.optimiser.points import Gram
from fsl.episodes import Episodes, Predictions, Strategy, check_strategy
from fsl.features.bank import FeatureBank
from fsl.features.gathering import BankText, gathered
from fsl.few_shot_classifier import FewShotClassifier
from fsl.samplers.drawn import Balanced
from fsl.strategies.paddle import PADDLE
from fsl.strategies.refined import Refined
from fsl.strategies.simpleshot import SimpleShot
from fsl.transforms import Transform, transform_features
from tests.fsl.every_strategy import assert_same_predictions, draw, every_strategy
from tests.oracles.small_tasks import turned


@every_strategy
def test_it_is_a_frozen_dataclass_that_declares_itself(strategy: Strategy) -> None:
    kind = type(strategy)
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert isinstance(strategy.transductive, bool)
    assert isinstance(strategy.assumes_balance, bool)
    assert strategy.transform in typing.get_args(Transform)
    documentation = "\n".join(inspect.getdoc(base) or "" for base in kind.__mro__[:-1])
    for field in dataclasses.fields(kind):
        assert re.search(rf"\b{field.name}\b[\w, ]*: ", documentation), (
            f"{kind.__name__}.{field.name} is not documented"
        )
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(strategy, field.name, None)
        with pytest.raises(InputError, match=field.name):
            dataclasses.replace(strategy, **{field.name: object()})  # type: ignore[type-var]


@every_strategy
@settings(max_examples=3)
@given(seed=st.integers(0, 10_000), way=st.integers(1, 6), shot=st.integers(1, 3), queries=st.integers(1, 12))
def test_probabilities(strategy: Strategy, seed: int, way: int, shot: int, queries: int) -> None:
    found = strategy.predict(draw(seed, way=way, shot=shot, queries=queries))
    assert isinstance(found, Predictions)
    assert found.probabilities.shape == (6, queries, way)
    assert bool((found.probabilities >= 0).all())
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(6, queries))
    assert found.iterations is None or (found.iterations.shape, found.iterations.dtype) == ((6,), torch.int64)


@every_strategy
@settings(max_examples=2)
@given(seed=st.integers(0, 10_000))
def test_neither_the_order_of_points_nor_the_names_of_classes_matter(strategy: Strategy, seed: int) -> None:
    episodes = draw(seed)
    generator = torch.Generator().manual_seed(seed)
    rename, order, queries = (torch.randperm(count, generator=generator) for count in (4, 8, 11))
    support, labels = episodes.support[:, order], rename[episodes.support_labels[:, order]]
    other = dataclasses.replace(episodes, support=support, support_labels=labels, query=episodes.query[:, queries])
    expected = strategy.predict(episodes).probabilities[:, queries]
    assert_same_predictions(expected, strategy.predict(other).probabilities[..., rename])


@every_strategy
def test_a_task_alone_equals_the_same_task_in_a_batch(strategy: Strategy) -> None:
    episodes = draw(2)
    some = (0, 2, 5)
    together = strategy.predict(episodes).probabilities[list(some)]
    for i, expected in zip(some, together, strict=True):
        task = episodes.support[i][None], episodes.support_labels[i][None], episodes.query[i][None]
        alone = strategy.predict(Episodes(*task, 4, base_mean=episodes.base_mean)).probabilities[0]
        torch.testing.assert_close(alone, expected, atol=1e-4, rtol=0)


@every_strategy
def test_an_inductive_strategy_looks_at_one_query_at_a_time(strategy: Strategy) -> None:
    episodes = draw(3)
    others = dataclasses.replace(episodes, query=torch.cat([episodes.query[:, :1], draw(4).query[:, 1:]], dim=1))
    first, second = strategy.predict(episodes).probabilities[:, 0], strategy.predict(others).probabilities[:, 0]
    if not strategy.transductive:
        torch.testing.assert_close(first, second)
    else:  # or it would declare too much
        assert not torch.equal(first, second)


BY_CHANNELS = {"Baseline", "BaselinePlusPlus", "EntropyMin", "TransCLIP", "StatA", "Adaptive"}


"""No functions of inner products: Adam goes by the channels, random heads start in them, covariances are diagonal. So
does min-max scaling."""


def min_max(strategy: Strategy) -> bool:
    return isinstance(strategy, PADDLE) and strategy.variant == "published"


@every_strategy
def test_a_rotation_of_the_features_changes_no_prediction(strategy: Strategy) -> None:
    """Turned after the transform, for a power of the channels goes by the channels too."""
    episodes = draw(9, spread=2.0).transformed(strategy.transform)
    first, second = strategy.predict(episodes).probabilities, strategy.predict(turned(episodes)).probabilities
    by_channels = min_max(strategy) or getattr(strategy, "moments", "") == "coordinates"
    if type(strategy).__name__ not in BY_CHANNELS and not by_channels:
        assert_same_predictions(first, second)
        # An iteration may stop a step earlier or later; more steps after a sharp prior, which dominates the objective.
        torch.testing.assert_close(first, second, atol=0.05 if isinstance(strategy, Refined) else 2e-3, rtol=0)
    else:  # or the list would name too many
        assert float((first - second).abs().max()) > 2e-3


@every_strategy
def test_separable_classes_are_told_apart(strategy: Strategy) -> None:
    """Balanced, as every strategy may take the queries to be."""
    episodes = draw(5, queries=12)
    way, dim = 4, 16
    hidden = torch.stack([torch.randperm(12, generator=torch.Generator().manual_seed(i)) % way for i in range(6)])
    centres = 10 * torch.eye(dim)[:way].expand(6, -1, -1)
    noise = 0.05 * torch.rand(6, 20, dim, generator=torch.Generator().manual_seed(9))
    support = centres.repeat_interleave(2, dim=1) + noise[:, :8]
    query = centres.gather(1, hidden[..., None].expand(-1, -1, dim)) + noise[:, 8:]
    found = strategy.predict(dataclasses.replace(episodes, support=support, query=query))
    if not min_max(strategy):  # min-max scaling makes twelve channels of noise as wide as the rest
        assert torch.equal(found.labels, hidden)


@every_strategy
def test_gathering_from_a_bank_changes_nothing(strategy: Strategy) -> None:
    generator = torch.Generator().manual_seed(8)
    bank = torch.rand(200, 12, generator=generator)
    mean = bank.mean(0)
    labels = torch.arange(10).repeat_interleave(20)
    tasks = Balanced(3, 2, 4).tasks(labels).block(0)[:7]
    text = torch.rand(10, 12, generator=generator)
    task = bank[tasks.support], tasks.support_labels, bank[tasks.query]
    given_features = Episodes(*task, 3, base_mean=mean, text=text[tasks.classes], logit_scale=10.0)
    transformed = transform_features(bank, strategy.transform, mean)
    names = BankText.of(FeatureBank(bank, labels, tuple("abcdefghij"), text=text, logit_scale=10.0), "cpu")
    drawn = gathered(transformed, tasks, strategy.transform, text=names)
    torch.testing.assert_close(
        strategy.predict(drawn).probabilities, strategy.predict(given_features).probabilities, atol=5e-3, rtol=0
    )


@every_strategy
def test_padded_support_and_queries_weigh_nothing(strategy: Strategy) -> None:
    """Shots and queries that differ by task are padded; what stands in the padding does not matter. The padding looks
    like other points of the task, and the classes overlap, or a strategy that reads it could go unnoticed."""
    episodes = draw(5, spread=3.0)
    keep_support = torch.ones(6, 8, dtype=torch.bool)
    keep_support[0, 1] = keep_support[1, 3] = keep_support[1, 5] = False  # every class keeps one
    keep_query = torch.ones(6, 11, dtype=torch.bool)
    keep_query[0, 8:] = False
    keep_query[2, 0] = False
    padded = dataclasses.replace(
        episodes,
        support=torch.where(keep_support[..., None], episodes.support, episodes.query[:, :8]),
        query=torch.where(keep_query[..., None], episodes.query, episodes.query.roll(3, 1)),
        support_mask=keep_support,
        query_mask=keep_query,
    )
    found = strategy.predict(padded).probabilities
    for i in range(3):
        support, labels = (part[i, keep_support[i]][None] for part in (episodes.support, episodes.support_labels))
        alone = Episodes(support, labels, episodes.query[i, keep_query[i]][None], 4, base_mean=episodes.base_mean)
        expected = strategy.predict(alone).probabilities[0]
        # Sums of another length round otherwise, and an iteration may then stop a step earlier or later.
        torch.testing.assert_close(found[i, keep_query[i]], expected, atol=2e-3, rtol=0)


@every_strategy
def test_it_leaves_its_episodes_as_they_are(strategy: Strategy) -> None:
    """Strategies that are evaluated together share them."""
    episodes = draw(11).transformed(strategy.transform)
    points = episodes.points
    assert isinstance(points, Gram)
    held = {**vars(episodes), "inner products": points.values}
    before = {name: value.clone() for name, value in held.items() if isinstance(value, torch.Tensor)}
    strategy.predict(episodes)
    for name, value in before.items():
        assert torch.equal(held[name], value), name


@every_strategy
def test_double_precision_agrees(strategy: Strategy) -> None:
    single = draw(12)
    assert single.base_mean is not None
    double = dataclasses.replace(
        single, support=single.support.double(), query=single.query.double(), base_mean=single.base_mean.double()
    )
    first, second = strategy.predict(single).probabilities, strategy.predict(double).probabilities
    assert second.dtype == torch.float64
    assert_same_predictions(first.double(), second)


@every_strategy
def test_the_device_does_not_matter(strategy: Strategy) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    cpu = draw(13)
    assert cpu.base_mean is not None
    cuda = dataclasses.replace(
        cpu,
        support=cpu.support.cuda(),
        support_labels=cpu.support_labels.cuda(),
        query=cpu.query.cuda(),
        base_mean=cpu.base_mean.cuda(),
    )
    assert_same_predictions(strategy.predict(cpu).probabilities, strategy.predict(cuda).probabilities.cpu())


@every_strategy
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_points_equal(strategy: Strategy, value: float) -> None:
    """Nothing tells the classes apart: finite, and the tie goes to class 0 or stays a tie."""
    episodes = draw(7)
    flat = dataclasses.replace(
        episodes, support=torch.full_like(episodes.support, value), query=torch.full_like(episodes.query, value)
    )
    found = strategy.predict(flat)
    assert bool(found.probabilities.isfinite().all())
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(6, 11))


@every_strategy
def test_a_class_that_attracts_no_point(strategy: Strategy) -> None:
    """Its two examples lie with the other classes, as do the queries: none is nearest to its mean, in between."""
    support = torch.tensor([[[1.0, 0.1], [1.0, -0.1], [1.0, 0.02], [0.02, 1.0], [0.1, 1.0], [-0.1, 1.0]]])
    query = torch.tensor([[[1.0, 0.0], [0.05, 1.0], [1.0, 0.05]]])
    points, means = torch.cat([support, query], dim=1), support.unflatten(1, (3, 2)).mean(2)
    assert 1 not in torch.cdist(points, means).argmin(2)
    assert 1 not in (points @ means.mT / means.norm(dim=2)[:, None]).argmax(2)
    labels = torch.arange(3).repeat_interleave(2)[None]
    found = strategy.predict(Episodes(support, labels, query, 3, transform=strategy.transform))
    assert bool(found.probabilities.isfinite().all())
    torch.testing.assert_close(found.probabilities.sum(-1), torch.ones(1, 3))


@every_strategy
def test_negative_features_are_refused_where_they_cannot_be_taken(strategy: Strategy) -> None:
    episodes = draw(4)
    negative = dataclasses.replace(episodes, support=episodes.support - 0.5, query=episodes.query - 0.5)
    if "non-negative" in getattr(strategy, "needs", ""):
        with pytest.raises(InputError, match=r"non-negative.*transform="):
            strategy.predict(negative)
    else:
        assert bool(strategy.predict(negative).probabilities.isfinite().all())


@every_strategy
def test_a_missing_base_mean_is_named_where_it_is_needed(strategy: Strategy) -> None:
    without = dataclasses.replace(draw(4), base_mean=None)
    if strategy.transform == "CL2N":
        with pytest.raises(InputError, match=r"base_mean.*L2N"):
            strategy.predict(without)
    else:
        strategy.predict(without)


FLOATS = (-1.0, 0.0, 5e-324, 1e-300, 1e-15, 1e15, 1e30, 1e300)
INTEGERS = (-1, 0, 1, 2**62, 10**30)
FEW = {"max_iter": 3, "epochs": 2}


"""Fields that say how long a strategy works, and how long it does here."""


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return draw(1, batch=2, way=3, queries=5, dim=6)


@every_strategy
def test_every_number(strategy: Strategy, episodes: Episodes) -> None:
    hints = typing.get_type_hints(type(strategy), include_extras=True)
    names = {field.name for field in dataclasses.fields(strategy)}  # type: ignore[arg-type]
    few = {name: value for name, value in FEW.items() if name in names}
    quick = dataclasses.replace(strategy, **few)  # type: ignore[type-var]
    for field in dataclasses.fields(strategy):  # type: ignore[arg-type]
        kind = str(hints[field.name])
        values = FLOATS if "float" in kind else INTEGERS if "int" in kind else ()
        for value in values[:3] if field.name in few else values:
            check(quick, field.name, value, episodes)


def check(strategy: Strategy, name: str, value: float, episodes: Episodes) -> None:
    """One value of one field; a training that grows without bound is refused, too."""
    try:
        changed = dataclasses.replace(strategy, **{name: value})  # type: ignore[type-var]
        assert abs(value) <= (1e15 if isinstance(value, float) else 2**63), f"{name}={value} is taken"
        found = changed.predict(episodes).probabilities
    except InputError as error:
        if name not in str(error):
            raise
        return
    assert bool((found >= 0).all()), f"{name}={value}"
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 5), msg=f"{name}={value}: {found[0, 0].tolist()}")


@dataclass(frozen=True)
class SelfTraining:
    """Lacks its class variables."""

    transform: str = "CL2N"

    def predict(self, episodes):
        return SimpleShot().predict(episodes)


@pytest.mark.parametrize(
    "refuse",
    [lambda one: check_strategy("mine", one), lambda one: FewShotClassifier(one).fit([[0.0, 1], [1, 0]], [0, 1])],
)
def test_both_name_all_that_is_missing(refuse):
    with pytest.raises(
        InputError, match=r"transductive: ClassVar.*assumes_balance: ClassVar.*tests/templates/strategy.py"
    ):
        refuse(SelfTraining())
    with pytest.raises(InputError, match=r"predict.*transform.*transductive"):
        refuse(object())
    with pytest.raises(InputError, match=r"SimpleShot\(\), not the class"):
        refuse(SimpleShot)


@every_strategy
def test_shots_that_differ_by_class(strategy: Strategy) -> None:
    """One, two, five and eight; the padding holds other points of the task."""
    shots = torch.tensor([1, 2, 5, 8])
    episodes = draw(6, shot=8, queries=11, spread=2.0)
    mask = (torch.arange(8) < shots[:, None]).flatten().expand(6, -1)
    filled = torch.where(mask[..., None], episodes.support, episodes.query[:, :8].repeat(1, 4, 1))
    found = strategy.predict(dataclasses.replace(episodes, support=filled, support_mask=mask)).probabilities
    keep = mask[0]
    without = dataclasses.replace(
        episodes, support=episodes.support[:, keep], support_labels=episodes.support_labels[:, keep]
    )
    torch.testing.assert_close(found, strategy.predict(without).probabilities, atol=2e-3, rtol=0)
