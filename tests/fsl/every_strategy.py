"""The strategies that the shared tests run over, and tasks for them. The list is the table of strategies itself: a new
one is checked by being there. Those that need images have the same checks on images, in a file of their own."""

import dataclasses
from typing import Any

import pytest
import torch

from fsl.episodes import Episodes, Predictions
from fsl.strategies import STRATEGIES

MARGIN = 1e-5
"""Queries whose two best probabilities are closer than this may go either way by rounding."""


PUBLISHED = {"transclip": {"variant": "aligned"}}
"""Settings of published forms whose errors the checks would find: the graph of TransCLIP's public code is misaligned if
there is a support, so the result depends on the order of queries. `test_class_names.py` compares it with an oracle."""

STEPS = 30
"""What is checked holds after any number of steps; a thousand, as TIM takes, would only take longer."""


def shortened(strategy: Any) -> Any:
    long = vars(strategy).get("max_iter", 0) > STEPS
    return dataclasses.replace(strategy, max_iter=STEPS) if long else strategy


def with_names(kind: Any) -> Any:
    """A strategy that adds class names to its tasks: the means of the support in another direction, since texts and
    images do not lie together."""

    def predict(self: Any, episodes: Episodes) -> Predictions:
        if episodes.named:
            return kind.predict(self, episodes)  # type: ignore[no-any-return]
        one_hot = episodes.support_one_hot
        means = one_hot.mT @ episodes.support / one_hot.sum(dim=1)[..., None]
        text = means + 0.1 * means.mean(dim=1, keepdim=True)
        text = torch.where((text == 0).all(dim=2, keepdim=True), 1.0, text)
        named = dataclasses.replace(episodes, text=text, logit_scale=10.0)
        result: Predictions = kind.predict(self, named)
        return result

    return type(kind.__name__, (kind,), {"predict": predict, "__doc__": kind.__doc__})


def variants() -> list[object]:
    """Every strategy as it comes, as published where it has that preset, and with class names where it takes them."""
    made: list[object] = []
    for name in STRATEGIES.table:
        kind = STRATEGIES.load(name)
        if getattr(kind, "needs_images", False):
            continue
        use = getattr(kind, "text", "none")
        kinds = {"": kind} if use != "required" else {}
        if use != "none":
            kinds["_with_names"] = with_names(kind)
        for suffix, one in kinds.items():
            made.append(pytest.param(shortened(one()), id=f"{name}{suffix}"))
            if hasattr(one, "as_published") and (not suffix or use == "required"):
                published = one.as_published(**PUBLISHED.get(name, {}))
                made.append(pytest.param(shortened(published), id=f"{name}_as_published{suffix}"))
    return made


every_strategy = pytest.mark.parametrize("strategy", variants())


def draw(
    seed: int = 0, batch: int = 6, way: int = 4, shot: int = 2, queries: int = 11, dim: int = 16, spread: float = 1.0
) -> Episodes:
    """Tasks around random class centres, non-negative as after a ReLU; queries in random order."""
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(batch, way, dim, generator=generator)
    labels = torch.arange(way).repeat_interleave(shot).expand(batch, -1)
    hidden = torch.randint(0, way, (batch, queries), generator=generator)
    noise = lambda *shape: spread * torch.randn(*shape, generator=generator)  # noqa: E731
    support = centres.gather(1, labels[..., None].expand(-1, -1, dim)) + noise(batch, way * shot, dim)
    query = centres.gather(1, hidden[..., None].expand(-1, -1, dim)) + noise(batch, queries, dim)
    base_mean = torch.rand(dim, generator=generator)
    return Episodes(support.relu(), labels, query.relu(), way, base_mean=base_mean)


def clear(probabilities: torch.Tensor) -> torch.Tensor:
    """(…) bool: the two best classes are apart."""
    if probabilities.shape[-1] == 1:
        return torch.ones(probabilities.shape[:-1], dtype=torch.bool)
    best = probabilities.topk(2, dim=-1).values
    return best[..., 0] - best[..., 1] > MARGIN


TIES = (
    "If two classes or examples are equally near, neither order nor rounding may decide: give equal weights to all "
    "within a tolerance, instead of argmin or argmax."
)


def assert_same_predictions(first: torch.Tensor, second: torch.Tensor) -> None:
    """Fails if a clear prediction differs, or if more than a tenth of the predictions are unclear.

    Args:
        first: (B, Q, K) or (Q, K) probabilities.
        second: others of the same tasks, queries and classes.
    """
    sure = clear(first) & clear(second)
    differ = sure & (first.argmax(-1) != second.argmax(-1))
    if bool(differ.any()):
        at = tuple(differ.nonzero()[0].tolist())
        raise AssertionError(
            f"{int(differ.sum())} of {differ.numel()} predictions differ; the first at {at} (task, query): "
            f"{first[at].tolist()} and {second[at].tolist()}. {TIES}"
        )
    share = float(sure.float().mean())
    assert share > 0.9, f"only {share:.0%} of the predictions have one best class"
