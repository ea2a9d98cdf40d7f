"""Numbers of a table: digits as in print, units of their columns, differences that count."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.tables.formats import numbers
from runs.tables.papers.printed import Value
from runs.tables.table import Cell, Column, SeedResult
from runs.tables.verdicts import Verdict
from tests.runs.made_up import config, hostile


@given(st.floats(-1e6, 1e6), st.integers(0, 4))
def test_what_was_found_has_the_digits_of_the_print(value, decimals):
    printed = f"{value:.{decimals}f}"
    cell = Cell(
        config(), results=(SeedResult(0, value, math.nan, 1, "r"),), published=Value(value, printed, None, "own")
    )
    found = numbers.measured(hostile(["a"], ["b"]), cell, Column("x", unit=""))
    assert float(found) == float(printed)
    assert len(found.partition(".")[2]) == decimals


def test_numbers_are_in_the_unit_of_their_column():
    cell = Cell(config(), results=(SeedResult(0, 0.7149, 0.0123, 100, "r"),))
    table = hostile(["a"], ["b"])
    assert numbers.measured(table, cell, Column("x", unit="%")) == "71.49 ± 1.23"
    assert numbers.measured(table, cell, Column("x", unit="s")) == "0.7149 ± 0.0123"
    assert numbers.measured(table, Cell(None), Column("x")) == "not run"


@given(st.floats(-1, 1).filter(lambda value: abs(value) > 1e-9), st.integers(0, 3))
def test_a_difference_that_counts_is_not_shown_as_none(difference, decimals):
    printed = Value(1.0, f"{1:.{decimals}f}", None, "own")
    for status in ("above", "reproduced"):
        cell = Cell(config(), published=printed, verdict=Verdict(status, difference=difference))
        shown = float(numbers.difference(cell, Column("x", unit="")))
        assert (shown != 0) >= (status == "above")
        assert shown == pytest.approx(difference, abs=0.5 * 10**-decimals + 1e-12)
