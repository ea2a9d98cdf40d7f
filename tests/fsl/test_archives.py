"""Archives of arrays: the same as numpy reads, without memory where they are stored as they are."""

import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fsl.benchmarks.archives import open_archive

ARRAYS = arrays.arrays(
    st.sampled_from(["u1", "<i8", ">f4", "?", "<U3"]),
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
)


@settings(max_examples=30)
@given(content=st.dictionaries(st.sampled_from(["images", "labels", "x"]), ARRAYS, min_size=1), packed=st.booleans())
def test_they_are_what_numpy_reads(tmp_path_factory, content, packed):
    path = tmp_path_factory.getbasetemp() / "any.npz"
    (np.savez_compressed if packed else np.savez)(path, **content)
    found = open_archive(path)
    with np.load(path) as wanted:
        assert [*found] == wanted.files
        for name in found:
            assert found[name].dtype == wanted[name].dtype
            np.testing.assert_array_equal(found[name], wanted[name])


def test_what_is_stored_as_it_is_takes_no_memory(tmp_path):
    images = np.asfortranarray(np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3))
    np.savez(tmp_path / "a.npz", images=images)
    np.savez_compressed(tmp_path / "b.npz", images=images)
    assert isinstance(open_archive(tmp_path / "a.npz")["images"], np.memmap)
    assert not isinstance(open_archive(tmp_path / "b.npz")["images"], np.memmap)


def test_damaged_files_and_objects_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, images=np.zeros((9, 9)))
    whole = path.read_bytes()
    for data in (b"", b"rubbish", whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises((OSError, ValueError, zipfile.BadZipFile)):
            open_archive(path)
    np.savez(path, images=np.array([{}], object))
    with pytest.raises(ValueError, match="objects"):
        open_archive(path)
