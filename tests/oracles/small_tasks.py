"""Small random tasks in float64, and the same as arrays for the loop-written oracles."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fsl.episodes import Episodes
from tests.oracles import fewshot_loops

Array = NDArray[np.float64]


def draw(
    seed: int, batch: int = 3, way: int = 3, shot: int = 2, queries: int = 9, dim: int = 6, noise: float = 0.7
) -> Episodes:
    """Tasks around random centres."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(way).repeat_interleave(shot).expand(batch, -1)
    hidden = torch.randint(0, way, (batch, queries), generator=generator)
    centres = torch.randn(batch, way, dim, generator=generator, dtype=torch.float64)
    around = torch.randn(batch, way * shot + queries, dim, generator=generator, dtype=torch.float64)
    places = torch.cat([labels, hidden], dim=1)[..., None].expand(-1, -1, dim)
    features = centres.gather(1, places) + noise * around
    mean = torch.full((dim,), 0.1, dtype=torch.float64)
    return Episodes(features[:, : way * shot], labels, features[:, way * shot :], way, base_mean=mean)


def changed(episodes: Episodes, change: Callable[[torch.Tensor], torch.Tensor]) -> Episodes:
    """The same tasks with all features (…, D) changed alike, the base mean too."""
    parts = {"support": episodes.support, "query": episodes.query, "base_mean": episodes.base_mean}
    return dataclasses.replace(episodes, **{name: change(part) for name, part in parts.items() if part is not None})


def turned(episodes: Episodes, *, moved: float = 0.0, scaled: float = 1.0) -> Episodes:
    """The same tasks, moved along every axis, scaled, and then rotated at random."""
    generator = torch.Generator().manual_seed(1)
    size = episodes.support.shape[2]
    rotation = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=episodes.support.dtype)).Q
    return changed(episodes, lambda features: scaled * (features + moved) @ rotation)


def as_arrays(episodes: Episodes, transform: str) -> Iterator[tuple[Array, list[int], Array]]:
    """Transformed support, labels and transformed queries of each task, padding left out."""
    assert episodes.base_mean is not None
    for i, (support, labels, query) in enumerate(
        zip(episodes.support, episodes.support_labels, episodes.query, strict=True)
    ):
        if episodes.support_mask is not None:
            support, labels = support[episodes.support_mask[i]], labels[episodes.support_mask[i]]
        x, q = (fewshot_loops.transform(f.numpy(), transform, episodes.base_mean.numpy()) for f in (support, query))
        yield x, labels.tolist(), q


def labels_of(sizes: list[int], seed: int = 0) -> torch.Tensor:
    """Labels of a split with these class sizes, in random order."""
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]


def with_constants(kind: Any, **values: Any) -> Any:
    """A strategy with these values of its fields, and of the constants of its class."""
    fields = {field.name for field in dataclasses.fields(kind)}
    own = type(kind.__name__, (kind,), {name: value for name, value in values.items() if name not in fields})
    return own(**{name: value for name, value in values.items() if name in fields})
