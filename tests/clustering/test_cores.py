"""Work on each core: every item once, in order, errors passed on, torch's threads as they were."""

import threading

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


def test_several_at_once_each_on_one_thread():
    torch.set_num_threads(3)
    together = threading.Barrier(3, timeout=30)  # passes only where three items are under way at once

    def work(_):
        together.wait()
        return torch.get_num_threads()

    assert [threads for _, threads in on_each_core(work, range(6))] == [1] * 6
