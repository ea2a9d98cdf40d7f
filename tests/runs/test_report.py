"""The report: pages from the record, where each number comes from, what is missing or damaged, many runs."""

import json
import os
import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from runs.cache import Store
from runs.cli import main
from runs.report.site import build_report
from runs.tables.papers.published import errata, figures
from runs.track import Tracker

RUN = r"http://127\.0\.0\.1:5000/#/runs/[0-9a-f]{32}"  # of the interface that `transduce ui` starts
SHIPPED = Path(__file__).parents[2] / "reproduction"


class Page(HTMLParser):
    """What a page links to, its anchors, its headings and its landmarks."""

    def __init__(self, path):
        super().__init__()
        self.path, self.text = path, path.read_text(encoding="utf-8")
        self.links, self.loads, self.anchors, self.tags = [], [], [], []
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        if "id" in given:
            self.anchors.append(given["id"])
        if tag == "a":
            self.links.append(given["href"])
        self.loads += [given[name] for name in ("src", "href") if name in given and tag in ("link", "script", "img")]


def read_site(report):
    """Every page by its path in the site."""
    root = report.parent
    return {path.relative_to(root).as_posix(): Page(path) for path in root.rglob("*.html")}


def check_site(report):
    """Every page is whole and leads nowhere but to what is there; gives the pages."""
    pages = read_site(report)
    for name, page in pages.items():
        assert page.tags.count("h1") == page.tags.count("main") == page.tags.count("header") == 1, name
        assert len(set(page.anchors)) == len(page.anchors), name
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if re.fullmatch(RUN, link) and link not in page.loads:
                continue
            assert not parts.scheme, f"{name}: {link}"
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path) or name))
            target = name if not parts.path else target
            assert (report.parent / target).is_file(), f"{name}: {link}"
            if parts.fragment:
                assert parts.fragment in pages[target].anchors, f"{name}: {link}"
    return pages


@pytest.fixture
def recorded(recorded):
    """Results of two strategies at two shots."""
    return list(recorded.values())


@pytest.fixture
def few_tables(monkeypatch):
    """One of the papers' tables instead of all: a site of a moment."""
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/4.4"])


with_few_tables = pytest.mark.usefixtures("few_tables")


@with_few_tables
def test_without_any_record(tmp_path, capsys):
    assert main(["report", f"results={tmp_path / 'results'}"]) == 0
    report = Path(urlsplit(capsys.readouterr().out.strip()).path)
    pages = check_site(report)
    assert "no run of yours yet" in pages["index.html"].text
    assert not (tmp_path / "results" / "mlflow.db").exists(), "a report makes no record"


@pytest.fixture
def shipped(monkeypatch):
    """The record that the project ships, and one of the tables that it fills."""
    monkeypatch.setattr("runs.tables.shipped.PLACE", SHIPPED)
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/3.2"])


@pytest.fixture(scope="module")
def shipped_pages(tmp_path_factory):
    """The pages of this record alone."""
    store = Store(tmp_path_factory.mktemp("shipped"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runs.tables.shipped.PLACE", SHIPPED)
        patch.setattr("runs.report.papers.published_names", lambda: ["thesis/3.2"])
        return check_site(build_report(store, Tracker(store)))


def test_without_own_runs_it_shows_the_shipped_ones(shipped_pages, shipped):
    pages = shipped_pages
    paper = pages["papers/thesis.html"]
    assert "shipped: runs of commit" in paper.text
    assert not any("/runs/" in link for link in paper.links)
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", pages["index.html"].text))
    assert "27 cells printed, 27 can be run here, 21 run, 10 reproduced" in shown
    assert "thesis 27 21 10 5 6 6" in shown
    assert "not run needs census.root=FOLDER 6" in shown


def test_claims_errata_and_causes_lead_to_their_tables(shipped_pages):
    pages = shipped_pages
    claims = pages["claims.html"].text
    of_papers, _, not_run = claims.partition(">Not run: ")
    assert 'class="verdict holds' in of_papers
    assert "verdict holds" not in not_run
    assert 'verdict not-run">' not in of_papers
    assert "papers/thesis.html#thesis-3.2" in pages["claims.html"].links
    assert all(f"{erratum}</th>" in pages["errata.html"].text for erratum in errata())
    assert "papers/thesis.html#thesis-3.2" in pages["errata.html"].links
    words = " ".join(pages["errata.html"].text.split())
    assert "11 cells are above or below the print. The cause was looked for in 11 of them" in words
    assert "and found in 2." in words
    for figure in figures():
        text = pages[f"papers/{figure.work}.html"].text
        assert f"{figure.name}: " in text or re.search(rf">Figure {re.escape(figure.number)}(<| on )", text)


def test_counts_on_the_command_line(shipped, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("runs.tables.counts.published_names", lambda: ["thesis/3.2", "rs_transclip/1"])
    arguments = ["report", "--counts", f"results={tmp_path / 'results'}"]
    assert main(arguments) == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["all"]]
    assert row == ["all", "39", "33", "22", "5", "6", "6"]
    assert main([*arguments, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert [of["name"] for of in counts["tables"]] == ["thesis/3.2", "rs_transclip/1"]
    assert counts["kinds"] == {"results of methods": 33}
    thesis = counts["tables"][0]
    assert thesis["reproduced"] + thesis["above"] + thesis["below"] + thesis["not run"] == thesis["printed"] == 27
    assert thesis["reasons"] == [{"verdict": "not run", "reason": "needs census.root=FOLDER", "cells": 6}]
    assert not (tmp_path / "results" / "report").exists()


def test_every_number_leads_to_its_run(report, recorded):
    pages = check_site(report)
    assert "434 cells printed" in pages["index.html"].text
    for result in recorded:
        page = pages["experiments/tiny.html"]
        assert f"{100 * result.accuracy:.2f} ±" in page.text
        assert any(link.endswith(f"/#/runs/{result.run_id}") for link in page.links)


@pytest.fixture
def quick_pages(monkeypatch):
    """A site of one page, where its content does not matter."""
    monkeypatch.setattr("runs.report.site._pages", lambda *_: {"index.html": "<p>all</p>"})


@pytest.mark.usefixtures("quick_pages")
def test_the_old_site_stands_until_the_new_one_is_whole(store, tracker, monkeypatch):
    report = build_report(store, tracker)
    before = report.read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("runs.report.site.put_in_place", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build_report(store, tracker)
    assert report.read_bytes() == before
    assert not (store.root / "report.partial").exists()
    (store.root / "report.partial").mkdir()
    (store.root / "report.old-x").mkdir()
    os.remove(report)
    assert build_report(store, tracker).read_bytes() == before, "what a killed process left is removed"
    assert [path.name for path in store.root.glob("report*")] == ["report"]


@pytest.mark.usefixtures("quick_pages")
def test_it_is_opened_in_a_browser(tmp_path, monkeypatch, capsys):
    """Whatever $BROWSER names is given the address."""
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho $1 > {tmp_path}/asked\n")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    assert main(["report", "--open", f"results={tmp_path / 'results'}"]) == 0
    assert (tmp_path / "asked").read_text() == capsys.readouterr().out
