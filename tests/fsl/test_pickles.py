"""Pickles of other programs: what they hold, at every protocol and of every age, and that nothing in them is run."""

import collections
import contextlib
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from clustering.foundation.errors import InputError
from fsl.benchmarks.pickles import read_pickle

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and repr(one.tolist()) == repr(other.tolist())
    if isinstance(one, dict):
        return [*one] == [*other] and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def native(value):
    """With the machine's byte order, which numpy gives an array at some protocols only."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("="))
    if isinstance(value, dict):
        return {key: native(item) for key, item in value.items()}
    return type(value)(map(native, value)) if isinstance(value, (list, tuple)) else value


leaves = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.booleans(),
    st.none(),
    arrays.arrays(
        st.sampled_from(["u1", "<i8", ">i4", "f4", ">f8", "?", "S3", "<U2"]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(value=values, protocol=st.sampled_from(PROTOCOLS))
def test_what_was_written_is_read(tmp_path_factory, value, protocol):
    path = tmp_path_factory.getbasetemp() / "any.pkl"
    data = pickle.dumps(value, protocol)
    want = pickle.loads(data)
    path.write_bytes(data)
    assert same(native(want), native(read_pickle(path)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_of_any_order_and_dicts_of_any_kind(tmp_path, protocol):
    fortran = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    by_label = collections.defaultdict(list, {1: [fortran[0]], 0: [fortran[1]]})
    scalars = [np.float32(0.5), np.int64(7)]
    objects = np.empty(2, object)
    objects[:] = [np.arange(3), np.arange(2)]
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps([fortran, by_label, scalars, objects, collections.OrderedDict(a=1)], protocol))
    found = read_pickle(path)
    assert same(found[0], fortran.copy())
    assert type(found[1]) is dict
    assert same(found[1], dict(by_label))
    assert found[2] == [0.5, 7]
    assert same(found[3].tolist(), [np.arange(3), np.arange(2)])
    assert found[4] == {"a": 1}


def test_what_python_2_wrote(tmp_path):
    """Strings become text; `cPickle` of an array, protocol 2, written out opcode by opcode."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        b"(K\x01(K\x02K\x02tcnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89U\x04\x01\x02\xfe\xfftb"
    )
    path = tmp_path / "old.pkl"
    path.write_bytes(b"\x80\x02}(U\x04data" + array + b"U\x06labels](K\x05U\x03cateu.")
    found = read_pickle(path)
    assert list(found) == ["data", "labels"]
    assert found["data"].tolist() == [[1, 2], [254, 255]]
    assert found["labels"] == [5, "cat"]


class Runs:
    """What a malicious file is made with."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("place", [lambda bad: bad, lambda bad: {"data": np.ones(3), "labels": [bad]}])
def test_a_malicious_file_is_refused_and_nothing_in_it_runs(tmp_path, monkeypatch, protocol, place):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bad.pkl"
    path.write_bytes(pickle.dumps(place(Runs(os.mkdir, "pwned")), protocol))
    with pytest.raises(InputError, match=r"bad\.pkl: .*\w+\.mkdir"):
        read_pickle(path)
    assert os.listdir() == ["bad.pkl"]


def of(*opcodes):
    return b"".join(opcodes) + b"."


MUST_FAIL = {
    "os.system as protocol 0 writes it": of(b"cos\nsystem\n(S'touch pwned'\ntR"),
    "eval": of(b'c__builtin__\neval\n(S\'open("pwned", "w")\'\ntR'),
    "an attribute of an allowed module": of(b"cnumpy\nload\n(S'x'\ntR"),
    "numpy's own way to run code": of(b"cnumpy.testing._private.utils\nruntest\n(S'x'\ntR"),
    "a dotted name": of(b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93"),
    "another encoding": of(b"c_codecs\nencode\n(Vabc\nVutf-16\ntR"),
    "an object made from outside": of(b"P1\n"),
    "a type with a new meaning": of(b"cnumpy\nndarray\n(N}S'full'\nS'os.system'\nstb)R"),
    "an array of more than there is": of(
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
        b"(I1\n(I1000000000000\ntcnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\nS'ab'\ntb"
    ),
    "an array of a negative side": of(
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
        b"(I1\n(I-1\ntcnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\nS'ab'\ntb"
    ),
    "text of more than there is": b"\x80\x04\x8d" + (1 << 60).to_bytes(8, "little") + b"abc.",
    "bytes of more than there is": b"\x80\x05\x96" + (1 << 36).to_bytes(8, "little") + b"abc.",
    "short bytes of more than there is": b"\x80\x03B" + (2**32 - 1).to_bytes(4, "little") + b".",
    "no end": b"\x80\x02N",
    "nothing": b"",
    "another file": b"PK\x03\x04",
}


@pytest.mark.parametrize("what", MUST_FAIL)
def test_what_is_no_data_is_refused(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.pkl").write_bytes(MUST_FAIL[what])
    with pytest.raises(InputError, match=r"bad\.pkl: (contains|damaged)") as error:
        read_pickle(tmp_path / "bad.pkl")
    assert len(str(error.value).splitlines()) == 1
    assert os.listdir() == ["bad.pkl"]


@given(data=st.data())
def test_a_damaged_file_is_refused_or_read_and_never_another_error(tmp_path_factory, data):
    whole = pickle.dumps({"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2], 3: (None, "x")}, 2)
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.pkl"
    path.write_bytes(damaged)
    with contextlib.suppress(InputError):
        read_pickle(path)


@pytest.mark.parametrize("put", [b"r\x00\x00\x00\x01", b"r\xff\xff\xff\x7f", b"p2000000000\n"])
def test_memory_is_not_reserved_for_objects_that_a_file_only_numbers(tmp_path, put):
    """The reader in C takes 256 MB for this number, and 64 GB for the largest."""
    (tmp_path / "small.pkl").write_bytes(b"N" + put + b".")
    tracemalloc.start()
    try:
        assert read_pickle(tmp_path / "small.pkl") is None
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.pkl: "):
        read_pickle(tmp_path / "none.pkl")
