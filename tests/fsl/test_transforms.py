"""Per-feature transforms, one feature at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from fsl.transforms import Transform, transform_features
from tests.oracles import fewshot_loops as oracle

NAMES: tuple[Transform, ...] = ("UN", "L2N", "CL2N", "PT")


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10_000), name=st.sampled_from(NAMES))
def test_transforms_agree_with_loops(seed: int, name: Transform) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(5, 7, generator=generator, dtype=torch.float64).relu()
    mean = torch.rand(7, generator=generator, dtype=torch.float64)
    before = features.clone()
    expected = oracle.transform(features.numpy(), name, mean.numpy())
    torch.testing.assert_close(transform_features(features, name, mean), torch.from_numpy(expected))
    assert torch.equal(features, before)


def test_the_power_transform_refuses_negative_features() -> None:
    features = torch.rand(3, 4)
    features[1, 2] = -0.25
    with pytest.raises(InputError, match=r"PT .*non-negative.*-0\.25.*transform=L2N"):
        transform_features(features, "PT")
