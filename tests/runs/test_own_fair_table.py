"""Tables of one's own in fair clusters, and their page."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from fairness.metrics import fairness_error
from runs.cli import main
from tests.runs.pages import nothing_is_written, text
from tests.runs.typed import latest

BRIEF = ("n_init=1",)
WEIGHTS = ("fairness_weight=0,30,1000", *BRIEF)


@pytest.fixture
def people_fair(tmp_path):
    """Sixty people, a third of them women, whose incomes tell these from men."""
    generator = np.random.default_rng(0)
    sex = np.where(np.arange(60) % 3 == 0, "Female", "Male")
    income = np.where(sex == "Female", 20, 40) + generator.normal(0, 6, 60)
    path = tmp_path / "people.csv"
    rows = {"who": [f"{i:03}" for i in range(60)], "income": income, "age": generator.integers(18, 80, 60), "sex": sex}
    pd.DataFrame(rows).assign(member=np.arange(60) % 2).to_csv(path, index=False)
    return path


@pytest.fixture
def fair(people_fair, store, capsys, blank_pictures):
    def call(*settings, path=people_fair):
        given = latest("sensitive=sex", "n_init=1", *settings)
        code = main(["fair", "dataset=table", f"path={path}", f"results={store.root}", *given])
        return code, capsys.readouterr()

    return call


def test_the_same_rows_come_out_with_fair_clusters_and_a_page(fair, people_fair, tmp_path):
    settings = ("columns=income,age", "n_clusters=2", *WEIGHTS, f"output={tmp_path / 'out.csv'}")
    code, seen = fair(*settings)
    assert code == 0, seen.err
    before, after = (pd.read_csv(path, dtype={"who": str}) for path in (people_fair, tmp_path / "out.csv"))
    pd.testing.assert_frame_equal(after[list(before.columns)], before)
    assert list(after.columns) == [*before.columns, "cluster"]
    assert fairness_error(after["cluster"], after["sex"]) < 0.01
    page = (tmp_path / "out.html").read_text()
    assert re.search(r"sex = Female 0 .* 33 %", text(page))
    assert f"path={people_fair}" in page
    assert (tmp_path / "out.html").as_uri() in seen.err
    (tmp_path / "out.html").unlink()
    code, seen = fair(*settings)
    assert "reused" in seen.out
    assert (tmp_path / "out.html").read_text() == page


def test_shares_of_numbers_need_their_names(fair, tmp_path):
    path = tmp_path / "ages.csv"
    path.write_text("a,b,age\n" + "".join(f"{i % 7},{i % 5},{10 if i % 3 else 2}\n" for i in range(60)))
    asked = ("sensitive=age", "columns=a,b", "n_clusters=2", "fairness_weight=10", *BRIEF, "--json")
    code, seen = fair(*asked, "target=[0.5, 0.5]", path=path)
    assert code == 2
    assert "name the group of each share of 'age', as 'target=[2: 0.5, 10: 0.5]'" in seen.err
    code, seen = fair(*asked, "target=[2: 0.6, 10: 0.4]", path=path)
    assert code == 0, seen.err
    (record,) = json.loads(seen.out)
    assert dict(zip(record["groups"], record["target"], strict=True)) == {"10": 0.4, "2": 0.6}


def test_a_page_of_somebody_else_is_not_written_over(fair, tmp_path):
    other = tmp_path / "out.html"
    other.write_text("<p>my thesis</p>")
    code, seen = fair("columns=income,age", "n_clusters=2", f"output={tmp_path / 'out.csv'}")
    assert code == 2
    assert str(other) in seen.err
    assert other.read_text() == "<p>my thesis</p>"
    assert not (tmp_path / "out.csv").exists()


def test_one_weight_is_what_the_rows_come_with(fair, store):
    code, seen = fair("n_clusters=2", "columns=income,age", "fairness_weight=1e-6", *BRIEF, "--json")
    assert code == 0, seen.err
    (record,) = json.loads(seen.out)
    assert [point["fairness_weight"] for point in record["weights"]] == [0, 1e-6]
    assert "1e-06 *" in text((store.root / "clusters" / record["page"]).read_text())
    assert record["rows"].endswith(".csv")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("sensitive=gender", "n_clusters=2"), ["gender", "sex"]),
        (("sensitive=", "n_clusters=2"), ["sensitive"]),
        (("n_clusters=21",), ["'Female'", "20 rows", "21 clusters"]),
        (("n_clusters=2", "sensitive=age"), ["bins=4"]),
        (("n_clusters=2", "missing=own_group"), ["missing", "drop"]),
        (("n_clusters=2", "columns=income,who,sex,member,name"), ["name"]),
    ],
)
def test_mistakes_of_fair_clusters_are_told_before_anything_is_written(fair, store, settings, words):
    nothing_is_written(fair, store, settings, words)


def test_a_method_that_knows_of_no_groups_is_not_said_to_be_fair(fair, store):
    code, seen = fair("n_clusters=2", "columns=income,age", "method=sklearn.cluster:KMeans", "n_init=auto", "--json")
    assert code == 0, seen.err
    page = text((store.root / json.loads(seen.out)[0]["page"]).read_text())
    assert "This method does not use sex" in page
    assert "Method: KMeans." in page
    for word in ("without fairness", "with fairness", "nan", "price"):
        assert word not in page.lower()
