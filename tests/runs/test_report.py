"""The report, its pages in the documentation, and the shipped record: each number leads to its run."""

import importlib
import json
import os
import posixpath
import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from clustering.deep.fair_assignment import FairAssignment
from clustering.foundation.errors import InputError
from fsl.strategies.zero_shot import ZeroShot
from runs.cache import Store
from runs.cli import main
from runs.config import groups
from runs.config.groups import option, outline
from runs.report import papers
from runs.report.site import build_report
from runs.stages.clustering.stage import clustering
from runs.tables.evidence import look_up
from runs.tables.formats import FILES, records
from runs.tables.grid import experiment_table
from runs.tables.paper import paper_table
from runs.tables.published import errata, figures, published_names
from runs.tables.shipped import CLAIMS, HEADINGS, RESULTS, made_by, shipped_results
from runs.track import Tracker
from tests.runs.pages import Reader
from tests.runs.records import exporting

RUN = r"http://127\.0\.0\.1:5000/#/runs/[0-9a-f]{32}"  # of the interface that `transduce ui` starts
PROJECT = Path(__file__).parents[2]
SHIPPED = PROJECT / "reproduction"


def check_site(report):
    """Every page is whole and leads nowhere but to what is there; gives the pages by their paths."""
    root = report.parent
    pages = {
        path.relative_to(root).as_posix(): Reader(path.read_text(encoding="utf-8")) for path in root.rglob("*.html")
    }
    for name, page in pages.items():
        tags = [tag for tag, _ in page.tags]
        assert tags.count("h1") == tags.count("main") == tags.count("header") == 1, name
        for tag, given in page.tags:
            link = given.get("href", given.get("src", "")) if tag in ("a", "link", "script", "img") else ""
            parts = urlsplit(link)
            if tag == "a" and re.fullmatch(RUN, link):
                continue
            assert not parts.scheme, f"{name}: {link}"
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path) or name))
            target = target if parts.path else name
            assert (root / target).is_file(), f"{name}: {link}"
            assert not parts.fragment or parts.fragment in pages[target].ids, f"{name}: {link}"
    return pages


@pytest.fixture
def recorded(recorded):
    """Results of two strategies at two shots."""
    return list(recorded.values())


@pytest.fixture
def few_tables(monkeypatch):
    """One of the papers' tables instead of all: a site of a moment."""
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/3.2"])


@pytest.mark.usefixtures("few_tables")
def test_without_any_record(tmp_path, capsys):
    assert main(["report", f"results={tmp_path / 'results'}"]) == 0
    report = Path(urlsplit(capsys.readouterr().out.strip()).path)
    pages = check_site(report)
    assert "no run of yours yet" in pages["index.html"].page
    assert not (tmp_path / "results" / "mlflow.db").exists(), "a report makes no record"


@pytest.fixture
def shipped_record(monkeypatch):
    """The results that the project ships."""
    monkeypatch.setattr("runs.tables.shipped.PLACE", SHIPPED)


@pytest.fixture(scope="module")
def shipped_pages(tmp_path_factory):
    """The pages of this record alone."""
    store = Store(tmp_path_factory.mktemp("shipped"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runs.tables.shipped.PLACE", SHIPPED)
        patch.setattr("runs.report.papers.published_names", lambda: ["thesis/3.2"])
        return check_site(build_report(store, Tracker(store)))


def test_without_own_runs_it_shows_the_shipped_ones(shipped_pages):
    pages = shipped_pages
    paper = pages["papers/thesis.html"]
    assert "shipped: runs of commit" in paper.page
    assert not any("/runs/" in link for link in paper.links)
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", pages["index.html"].page))
    assert "27 results of methods printed, 21 run here, 10 reproduced" in shown
    assert "thesis 27 21 10 5 6 6" in shown
    assert "not run needs census.root=FOLDER 6" in shown


def test_claims_errata_and_causes_lead_to_their_tables(shipped_pages):
    pages = shipped_pages
    claims = pages["claims.html"].page
    of_papers, _, not_run = claims.partition(">Not run: ")
    assert 'class="verdict holds' in of_papers
    assert "verdict holds" not in not_run
    assert 'verdict not-run">' not in of_papers
    assert "papers/thesis.html#thesis-3.2" in pages["claims.html"].links
    assert all(f"{erratum}</th>" in pages["errata.html"].page for erratum in errata())
    assert "papers/thesis.html#thesis-3.2" in pages["errata.html"].links
    words = " ".join(pages["errata.html"].page.split())
    assert "11 cells are above or below the print. The cause was looked for in 11 of them" in words
    assert "and found in 2." in words
    for figure in figures():
        text = pages[f"papers/{figure.work}.html"].page
        assert f"{figure.name}: " in text or re.search(rf">Figure {re.escape(figure.number)}(<| on )", text)


@pytest.mark.usefixtures("shipped_record")
def test_counts_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("runs.tables.counts.published_names", lambda: ["thesis/3.2", "rs_transclip/1"])
    arguments = ["report", "--counts", f"results={tmp_path / 'results'}"]
    assert main(arguments) == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["all"]]
    assert row == ["all", "39", "33", "22", "5", "6", "6"]
    assert main([*arguments, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert [of["name"] for of in counts["tables"]] == ["thesis/3.2", "rs_transclip/1"]
    thesis = counts["tables"][0]
    assert thesis["reproduced"] + thesis["above"] + thesis["below"] + thesis["not run"] == thesis["results"] == 27
    assert thesis["reasons"] == [{"verdict": "not run", "reason": "needs census.root=FOLDER", "cells": 6}]
    assert not (tmp_path / "results" / "report").exists()


def test_every_number_leads_to_its_run(report, recorded):
    pages = check_site(report)
    assert "139 results of methods printed" in pages["index.html"].page
    for result in recorded:
        page = pages["experiments/tiny.html"]
        assert f"{100 * result.accuracy:.2f} ±" in page.page
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


@pytest.fixture
def extension(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "docs"))
    return importlib.import_module("extensions.outcomes")


@pytest.fixture
def one_table(few_tables, shipped_record, monkeypatch):
    """The shipped results, and one table that they fill in part."""
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
    assert "21 run here, 10 reproduced" in thesis
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


@pytest.mark.usefixtures("shipped_record")
def test_tables_on_other_images_are_those_of_the_shipped_results(monkeypatch, tracker):
    """The network was given as a file, which is not here; the table and the experiment have its results nonetheless."""
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/4.4"])
    monkeypatch.setattr("runs.report.papers.works", lambda: {"thesis": "The thesis"})
    reader = papers.Reader((), tracker, shipped_results())
    (paper,) = reader.papers()
    tables = {table.name: table for table in paper.elsewhere["thesis/4.4"]}
    table = tables["thesis/4.4@mini, simpleshot_protonet_conv4_5shot"]
    assert all(cell.results for cell in table.cells)
    names = [experiment.name for experiment in reader.experiments({})]
    assert {"all_strategies@mini, simpleshot_protonet_conv4_5shot", "entropy_labels"} <= set(names)


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped results."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    for name in (RESULTS, CLAIMS):
        shutil.copy(SHIPPED / name, folder)
    monkeypatch.setattr("runs.tables.shipped.PLACE", folder)
    return folder


@pytest.mark.usefixtures("shipped_record")
def test_a_table_without_runs_shows_the_shipped_results(tracker: Tracker) -> None:
    table = look_up(paper_table("rs_transclip/1"), tracker)
    assert table.statuses == {"reproduced": 12}
    assert not any(cell.results for cell in table.cells)
    assert all(record["shipped"] > 0 and record["shipped_seeds"] for record in records(table))
    assert any(note.startswith("shipped: runs of commit ") for note in table.notes)
    assert all("shipped" in FILES[ending](table) for ending in ("md", "html", "csv"))


@pytest.mark.usefixtures("shipped_record")
def test_no_shipped_result_is_stale() -> None:
    """Every row is of the settings and revisions that its cell has today; otherwise make the results again."""
    ours = shipped_results()
    assert ours is not None
    stale = []
    for name in set(published_names()) & set(ours.names):
        filled, _ = ours.filled(paper_table(name))
        found = {cell.place for cell in filled.cells if cell.shipped}
        stale += [(name, *cell.place) for cell in ours.table(name, "").cells if cell.place not in found]
    assert stale == []
    assert (SHIPPED / RESULTS).stat().st_size < 300_000


@pytest.mark.usefixtures("shipped_record")
def test_no_shipped_result_on_other_data_or_of_an_experiment_is_stale() -> None:
    """Every row is of the revisions of today; their settings are not compared, since the networks are not here."""
    ours = shipped_results()
    assert ours is not None
    stale = []
    for name in set(ours.names) - set(published_names()):
        title, _, place = name.partition(", ")[0].partition("@")
        if title in groups.names("experiment"):
            table = experiment_table(title, [f"benchmark={place}"] if place else [])
        else:
            table = paper_table(f"{title}@{place}")
        now = {cell.place: made_by(cell.config, keyed=False) for cell in table.cells}
        rows = ours.results.loc[ours.results["table"] == name, [*HEADINGS[1:], "config"]]
        stale += [(name, *cell) for *cell, then in rows.itertuples(index=False) if now.get((*cell,)) != then]
    assert stale == []


@pytest.mark.usefixtures("shipped_record")
def test_other_settings_have_no_shipped_results(tracker: Tracker) -> None:
    table = look_up(paper_table("thesis/3.2", ["fairness_weight=1"]), tracker)
    weighted = [cell for cell in table.cells if cell.fair and hasattr(cell.fair.method.kind, "path")]
    assert weighted
    assert not any(cell.shipped for cell in weighted)
    assert {finding.status for finding in table.findings} <= {"not run"}


@pytest.mark.usefixtures("shipped_record")
@pytest.mark.parametrize(("raised", "place", "name"), [
    (ZeroShot, ("strategy", "zero_shot"), "rs_transclip/1"),
    (FairAssignment, ("method", option("method", "pseudo_labels_em").plugin), "entropy/I"),
])  # fmt: skip
def test_runs_of_an_earlier_revision_do_not_count(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch, raised: type, place: tuple[str, str], name: str
) -> None:
    before = look_up(paper_table(name), tracker)
    monkeypatch.setattr(outline(*place), "revision", 2, raising=False)
    table = look_up(paper_table(name), tracker)
    pairs = zip(before.cells, table.cells, strict=True)
    lost = [cell.place for known, cell in pairs if known.shipped and not cell.shipped]
    of_class = []
    for cell in before.cells:
        config = cell.few_shot or cell.clustering
        choice = getattr(config, "strategy", None) or getattr(config, "method", None)
        if cell.shipped and choice is not None and issubclass(choice.kind, raised):
            of_class.append(cell.place)
    assert lost == of_class
    assert lost


@pytest.mark.parametrize("name", [RESULTS, CLAIMS])
@pytest.mark.parametrize("change", [
    lambda lines: [],
    lambda lines: ["no,table"],
    lambda lines: [*lines[:-1], lines[-1].rpartition(",")[0]],
    lambda lines: [*lines, lines[-1].replace(",", ",x", 8)],
    None,
], ids=["empty", "other", "cut", "strange", "gone"])  # fmt: skip
def test_a_damaged_file_is_named(tracker: Tracker, copied: Path, name: str, change: object) -> None:
    path = copied / name
    lines = path.read_text(encoding="utf-8").splitlines()
    path.unlink()
    if callable(change):
        path.write_text("\n".join(change(lines)), encoding="utf-8")
    with pytest.raises(InputError, match=rf"{name}.* restore this file"):
        look_up(paper_table("rs_transclip/1"), tracker)


@pytest.mark.usefixtures("few_tables")
def test_exported_results_are_those_of_the_runs(tracker, kept, tmp_path, monkeypatch) -> None:
    settings = ["n_init=1", "max_iter=10", "fairness_weight=0,60"]
    empty = paper_table("thesis/3.2", settings)
    configs = [cell.fair for cell in empty.cells if cell.row == "Synthetic-unequal"]
    kept("row", lambda *where: clustering(configs, *where))
    own = look_up(empty, tracker)
    folder = tmp_path / "exported"
    folder.mkdir()
    module = exporting()
    runs = {row.run_id: row for row in module.read_runs(tracker, "")}
    count = module.write(folder, [own], runs)
    monkeypatch.setattr("runs.tables.shipped.PLACE", folder)
    again, findings = shipped_results().filled(empty)
    assert count == sum(len(cell.shipped) for cell in again.cells) > 0
    for cell, known in zip(own.cells, again.cells, strict=True):
        assert known.as_shipped.value == pytest.approx(cell.value, nan_ok=True)
        assert known.as_shipped.as_printed == pytest.approx(cell.as_printed, nan_ok=True)
    assert [one for one in own.findings if one.status != "not run"] == findings
    said = [(one.claim, one.setting) for one in look_up(empty, tracker).findings]
    assert len(said) == len(set(said)), "a claim that the user's runs decide is not said again of the shipped ones"
    with (folder / RESULTS).open(encoding="utf-8") as file:
        assert str(tmp_path) not in file.read()
