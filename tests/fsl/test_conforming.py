"""Images made like another benchmark's: grey and colour, larger and smaller."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fsl.features.pictures import conform

CHANNELS = st.sampled_from([1, 3])


@given(have=CHANNELS, want=CHANNELS, size=st.integers(4, 40), wanted=st.integers(4, 40), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_shape_and_range(have, want, size, wanted, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (3, have, size, size), dtype=torch.uint8, generator=generator)
    made = conform(images, want, wanted)
    assert made.shape == (3, want, wanted, wanted)
    assert made.min() >= images.min() - 1e-3
    assert made.max() <= images.max() + 1e-3
    if want == 3 and have == 1:
        assert torch.equal(made[:, 0], made[:, 1])
        assert torch.equal(made[:, 0], made[:, 2])


def test_grey_is_the_luma_of_pillow():
    from PIL import Image

    pixels = torch.randint(0, 256, (5, 6, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    want = torch.tensor(list(Image.fromarray(pixels.numpy()).convert("L").tobytes())).view(5, 6)
    found = conform(pixels.permute(2, 0, 1)[None], 1, 5)  # only the colour is compared: one row less is made
    assert found.shape == (1, 1, 5, 5)
    torch.testing.assert_close(
        conform(pixels[:5, :5].permute(2, 0, 1)[None], 1, 5)[0, 0], want[:, :5].float(), atol=0.6, rtol=0
    )
