"""The pages of the documentation about what came out: written from a record of two runs, linked among themselves."""

import importlib
import posixpath
import re
from pathlib import Path

import pytest

from runs.report.papers import Reader
from runs.tables.shipped import shipped_results

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def extension(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "docs"))
    return importlib.import_module("extensions.outcomes")


@pytest.fixture
def one_table(monkeypatch):
    """The shipped results, and one table that they fill in part."""
    monkeypatch.setattr("runs.tables.shipped.PLACE", PROJECT / "reproduction")
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/3.2"])
    monkeypatch.setattr("runs.report.papers.works", lambda: {"thesis": "A <thesis>", "entropy": "A paper"})


@pytest.mark.usefixtures("one_table")
def test_pages_of_the_shipped_results(extension, tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    extension.write(folder)
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    thesis = texts["papers/thesis.rst"]
    assert thesis.startswith(":orphan:\n\nA <thesis>\n====")
    assert all(line == "" or line.startswith("   ") for line in thesis.partition(".. raw:: html\n")[2].splitlines())
    assert "21 run, 10 reproduced" in thesis
    assert re.findall(r"^papers/\w+$", texts["contents.txt"], re.M) == ["papers/thesis", "papers/entropy"]
    assert 'href="papers/thesis.html"' in texts["overview.html"]
    assert {"figures/entropy-5.svg", "figures/thesis-3.1.svg"} <= texts.keys()
    assert "<img" in texts["papers/entropy.rst"]


@pytest.mark.usefixtures("one_table")
def test_links_among_the_pages_resolve(extension, tmp_path):
    pages = dict(extension.pages(tmp_path / "empty"))
    assert '<a href="../methods/fairness.html">docs/methods/fairness.md</a>' in pages["errata.rst"]
    built = {name.replace(".rst", ".html"): text for name, text in pages.items()}
    for name, text in built.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text) if name.endswith(".html") else ():
            place, _, anchor = link.partition("#")
            home = "index.html" if name == "overview.html" else name
            target = posixpath.normpath(posixpath.join(posixpath.dirname(home), place)) if place else name
            if target.startswith("../methods/"):
                assert (PROJECT / "docs" / target[3:].replace(".html", ".md")).is_file(), f"{name}: {link}"
                continue
            assert target in built, f"{name}: {link}"
            assert not anchor or f'id="{anchor}"' in built[target], f"{name}: {link}"


@pytest.mark.usefixtures("one_table")
def test_a_page_that_is_not_wanted_any_more_is_removed_and_an_equal_one_stays(extension, tmp_path):
    folder = tmp_path / "pages"
    extension.write(folder)
    (folder / "papers" / "gone.rst").write_text("old")
    (folder / "index.md").write_text("by hand")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    extension.write(folder)
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert before.keys() - after.keys() == {folder / "papers" / "gone.rst"}
    assert after == {path: time for path, time in before.items() if path in after}


def test_tables_on_other_images_are_those_of_the_shipped_results(monkeypatch, tracker):
    """The network was given as a file, which is not here; the table and the experiment have its results nonetheless."""
    monkeypatch.setattr("runs.tables.shipped.PLACE", PROJECT / "reproduction")
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/4.4"])
    monkeypatch.setattr("runs.report.papers.works", lambda: {"thesis": "The thesis"})
    reader = Reader((), tracker, shipped_results())
    (paper,) = reader.papers()
    tables = {table.name: table for table in paper.elsewhere["thesis/4.4"]}
    table = tables["thesis/4.4@mini, simpleshot_protonet_conv4_5shot"]
    assert all(cell.results for cell in table.cells)
    names = [experiment.name for experiment in reader.experiments({})]
    assert {"all_strategies@mini, simpleshot_protonet_conv4_5shot", "entropy_labels"} <= set(names)
