"""Tables of text, categories, dates and gaps, from file to page, for clusters and for fair ones."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from runs.cli import main
from tests.runs.pages import text

ROWS = 4_030


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Two kinds of people, in numbers, words and dates; some cells are empty, one age is "forty"."""
    generator = np.random.default_rng(0)
    kind = generator.integers(0, 2, ROWS)
    started = pd.Timestamp("2010-01-01") + pd.to_timedelta(kind * 3650 + generator.integers(0, 900, ROWS), unit="D")
    frame = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(ROWS)],
            "income": np.where(kind, 60_000, 25_000) + generator.normal(0, 5_000, ROWS).round(),
            "age": generator.integers(18, 80, ROWS).astype(str),
            "job": np.where(kind, generator.choice(["nurse", "cook"], ROWS), generator.choice(["clerk", "cook"], ROWS)),
            "started": started.strftime("%Y-%m-%d"),
            "member": generator.choice(["yes", "no"], ROWS),
            "sex": generator.choice(["Female", "Male"], ROWS),
            "note": ["=1+1"] * ROWS,
        }
    )
    frame.loc[16, "age"] = "forty"
    frame.loc[[3, 40, 400], "income"] = np.nan
    frame.loc[[5, 40], "job"] = ""
    path = tmp_path_factory.mktemp("people") / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def call(people, store, capsys):
    def command(verb, *settings):
        code = main([verb, "dataset=table", f"path={people}", f"results={store.root}", *settings])
        return code, capsys.readouterr()

    return command


def test_clusters_from_file_to_page(call, people, tmp_path):
    given = ("n_clusters=2", "method=kmeans", "selection=null", "starts=2", f"output={tmp_path / 'o.csv'}")
    code, seen = call("cluster", *given, "missing=error")
    assert (code, "income" in seen.err, "missing=drop" in seen.err) == (2, True, True)
    code, seen = call("cluster", *given, "missing=drop", "--json")
    assert code == 0, seen.err
    assert "'forty' in row 17" in seen.err
    assert "columns used: income (numbers); job, member, sex (categories); started (dates" in seen.err
    (record,) = json.loads(seen.out)
    assert record["columns"][-1] == "rows without a cluster because of missing values: 4"
    assert [line for line in record["columns"] if line not in seen.err] == []
    with people.open(newline="") as before, (tmp_path / "o.csv").open(newline="") as after:
        lines, found = list(csv.reader(before)), list(csv.reader(after))
    assert [line[:-2] for line in found] == lines  # also what is a formula
    assert [i for i, line in enumerate(found[1:]) if line[-2] == ""] == [3, 5, 40, 400]
    assert {line[-2] for line in found[1:]} == {"", "0", "1"}
    page = text((tmp_path / "o.html").read_text())
    for words in ("job: nurse", "started 20", "because of missing values: 4", "'forty' in row 17"):
        assert words in page, words
