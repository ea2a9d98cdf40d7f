"""A closed split gives out neither images nor features."""

import threading

import pytest
import torch

from fsl.benchmarks.closed_splits import ClosedSplitError, check_open, closed
from fsl.benchmarks.glyphs import Glyphs
from fsl.benchmarks.images import open_images
from fsl.features.bank import FeatureBank


@pytest.fixture
def novel_bank(tmp_path):
    bank = FeatureBank(torch.randn(4, 3), torch.tensor([0, 0, 1, 1]), ("a", "b"), provenance={"split": "novel"})
    bank.save(tmp_path / "bank.safetensors")
    return tmp_path / "bank.safetensors"


def test_features_of_a_closed_split_are_refused(novel_bank):
    with closed("novel"), pytest.raises(ClosedSplitError, match="novel"):
        FeatureBank.load(novel_bank)
    with closed("validation"):
        FeatureBank.load(novel_bank)
    FeatureBank.load(novel_bank)


def test_images_of_a_closed_split_are_refused_before_anything_is_read(tmp_path):
    with closed("novel"), pytest.raises(ClosedSplitError):
        open_images(Glyphs(), "novel", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_it_opens_again_at_the_end_of_the_outermost_block_whatever_happened_inside():
    with closed("novel"):
        with pytest.raises(ZeroDivisionError), closed("novel", "base"):
            raise ZeroDivisionError
        check_open("base")
        with pytest.raises(ClosedSplitError):
            check_open("novel")
    check_open("novel")


def test_it_is_closed_for_other_threads_too():
    found = []

    def look():
        try:
            check_open("novel")
        except ClosedSplitError as error:
            found.append(error)

    with closed("novel"):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert found
