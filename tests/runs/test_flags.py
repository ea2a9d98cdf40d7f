"""Flags: the values that they take, and the keys that may be written as flags."""

import re

import pytest

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags, parse_flags
from runs.config import overrides


def test_flags_take_values_behind_or_after_them():
    allowed = ("run-missing", "yes", "executor", "limit-minutes")
    found = parse_flags(
        "table", allowed, ["x", "--limit-minutes", "2.5", "-y", "--executor=dask://host:8786", "tasks=5"]
    )
    assert found == Flags(settings=("x", "tasks=5"), yes=True, executor="dask://host:8786", limit_minutes=2.5)


def test_keys_may_be_written_as_flags():
    found = parse_flags("x", (), ["--support", "my, own 'pictures'", "--query=a,b", "device=cpu"], ("support", "query"))
    assert [overrides.values(*overrides.split(setting))[0].text for setting in found.settings] == [
        "my, own 'pictures'",
        "a,b",
        "cpu",
    ]
    for typed in (["--query"], ["--query="], ["--query", "--support", "x"]):
        with pytest.raises(InputError, match="--query VALUE"):
            parse_flags("x", (), typed, ("support", "query"))
    with pytest.raises(InputError, match="'--support'"):
        parse_flags("x", (), ["--suport", "y"], ("support", "query"))


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--limit-minutes"], "--limit-minutes"),
        (["--limit-minutes", "soon"], "'soon'"),
        (["--limit-minutes=0"], "--limit-minutes"),
        (["--limit-minutes=nan"], "--limit-minutes"),
        (["--executor=slurm://here"], "dask://HOST:PORT"),
        (["--executor=dask://here"], "dask://HOST:PORT"),
        (["--yes=no"], "--yes"),
        (["--shot=5"], "shot=5"),
    ],
)
def test_a_flag_says_what_it_takes(typed, words):
    with pytest.raises(InputError, match=re.escape(words)):
        parse_flags("table", ("yes", "executor", "limit-minutes"), typed)
