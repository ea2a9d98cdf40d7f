"""Work on each core: every item once, in order, errors passed on, torch's threads as they were."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.foundation.cores import on_each_core


@pytest.fixture(autouse=True)
def threads_as_they_were():
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)


@given(st.lists(st.integers(), max_size=40))
@settings(max_examples=10, deadline=None)
def test_every_item_once_and_in_order(items):
    torch.set_num_threads(3)
    assert list(on_each_core(lambda item: item + 1, items)) == [(item, item + 1) for item in items]
