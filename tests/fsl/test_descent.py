"""The traced objective of the correct forms never rises, whatever their weights."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.episodes import Episodes
from fsl.extra.soft_slk import SoftSLK
from fsl.extra.text_mixture import TextMixture
from fsl.strategies.bavardage import BAVARDAGE
from fsl.strategies.em_dirichlet import EMDirichlet
from fsl.strategies.laplacianshot import LaplacianShot
from fsl.strategies.lp_plus_plus import LPPlusPlus
from fsl.strategies.paddle import PADDLE
from fsl.strategies.slk import SLKMS, SLKMeans
from fsl.strategies.stata import StatA
from fsl.strategies.transclip import TransCLIP
from tests.fsl.test_class_names import draw as draw_named
from tests.oracles.small_tasks import draw, with_constants
from tests.oracles.sweeps import largest_rise

betas, weights = st.sampled_from([1.0, 10.0, 65.0]), st.just(0.0) | st.floats(1e-9, 20)
graphs = st.sampled_from(["average", "union", "mutual"])
soft = {"members": st.just("soft"), "beta": betas, "weight": weights, "graph": graphs}
FIELDS: Mapping[Any, dict[str, Any]] = {
    LaplacianShot: {"weight": weights, "rectify": st.booleans(), "graph": graphs},
    SLKMeans: soft,
    SLKMS: soft,
    SoftSLK: {"beta": betas, "weight": weights, "support_weight": st.sampled_from([0.3, 3.0])},
    PADDLE: {"weight": weights, "variant": st.sampled_from(["corrected", "published"])},
    BAVARDAGE: {
        "beta": betas,
        "prior": st.sampled_from([0.1, 10.0]),
        "concentration": st.sampled_from([0.1, 2.0]),
        "rounds": st.just(30),
    },
}
names = st.sampled_from([0.1, 1.0, 5.0, 20.0])
OF_NAMES: Mapping[Any, dict[str, Any]] = {
    TransCLIP: {"text_weight": names},
    StatA: {"text_weight": names, "alpha": names},
    TextMixture: {"text_weight": names, "weight": names},
    EMDirichlet: {"weight": names},
    LaplacianShot: {"text_weight": names, "weight": names, "variant": st.just("lata"), "graph": graphs},
    LPPlusPlus: {"max_iter": st.just(30)},
}


@pytest.mark.parametrize("kind", FIELDS)
@settings(deadline=None, max_examples=10)
@given(data=st.data(), seed=st.integers(0, 100_000), single=st.booleans())
def test_the_objective_never_rises(kind: Any, data: st.DataObject, seed: int, single: bool) -> None:
    strategy = with_constants(kind, **{name: data.draw(values) for name, values in FIELDS[kind].items()})
    episodes = draw(seed, batch=4, way=5, queries=25)
    if single:
        support, query, mean = episodes.support.float(), episodes.query.float(), torch.full((6,), 0.1)
        episodes = Episodes(support, episodes.support_labels, query, 5, base_mean=mean)
    assert largest_rise(strategy.predict(episodes).trace) <= (1e-5 if single else 1e-9)


@pytest.mark.parametrize("kind", OF_NAMES)
@settings(deadline=None, max_examples=10)
@given(data=st.data(), seed=st.integers(0, 10_000), shot=st.integers(0, 2), size=st.integers(1, 20))
def test_it_never_rises_with_class_names(kind: Any, data: st.DataObject, seed: int, shot: int, size: int) -> None:
    fields = {name: data.draw(values) for name, values in OF_NAMES[kind].items()}
    shot = max(shot, int(kind is LPPlusPlus))  # it is zero-shot without labels, and has no trace
    trace = (
        with_constants(kind, **fields, **({"transform": "L2N"} if kind is LaplacianShot else {}))
        .predict(draw_named(seed, data.draw(st.integers(1, 6)), shot, size))
        .trace
    )
    assert largest_rise(trace) <= 1e-9
