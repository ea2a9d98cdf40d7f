"""The pages of the documentation about what came out: written from a record of two runs, linked among themselves."""

import dataclasses
import importlib
import posixpath
import re
from pathlib import Path

import pytest

from runs.record.exported import ExportedRuns, write_runs
from runs.report.outcomes import Outcomes
from runs.report.papers import Reader
from runs.report.rendering import Renderer, Site
from runs.tables.shipped import shipped_runs

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def extension(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "docs"))
    return importlib.import_module("extensions.outcomes")


@pytest.fixture
def two_runs(tmp_path, monkeypatch):
    """The shipped runs of Fair K-median on one set, and one table that they fill in part; gives the runs."""
    whole = ExportedRuns(PROJECT / "reproduction" / "record.jsonl.gz")
    methods = ("backurs", "fair_kmedian")
    drawn = {run_id for run in whole.runs for run_id in run.tags.get("source_runs", "").split()}
    on_set = [run for run in whole.runs if run.experiment == "fair/synthetic" and run.run_id not in drawn]
    chosen = [run for run in on_set if run.tags["method"] in methods]
    assert len(chosen) == 2
    write_runs(tmp_path / "runs.jsonl.gz", chosen, lambda run: whole.files[run.run_id])
    monkeypatch.setattr("runs.tables.shipped.PLACE", tmp_path / "runs.jsonl.gz")
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/3.2"])
    monkeypatch.setattr("runs.report.papers.works", lambda: {"thesis": "A <thesis>", "entropy": "A paper"})
    return chosen


def test_pages_of_a_record_of_two_runs(extension, two_runs, tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    extension.write(folder)
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    thesis = texts["papers/thesis.rst"]
    assert thesis.startswith(":orphan:\n\nA <thesis>\n====")
    assert all(line == "" or line.startswith("   ") for line in thesis.partition(".. raw:: html\n")[2].splitlines())
    assert "6 run, 3 reproduced" in thesis
    for run in two_runs:
        entry = texts["runs/fair-synthetic.rst"].partition(f'id="run-{run.run_id}"')[2]
        assert run.tags["code"] in entry
        assert f"../runs/fair-synthetic.html#run-{run.run_id}" in thesis
    assert re.findall(r"^papers/\w+$", texts["contents.txt"], re.M) == ["papers/thesis", "papers/entropy"]
    assert 'href="papers/thesis.html"' in texts["overview.html"]
    drawn = {name for name in texts if name.endswith(".svg")}
    assert drawn == {f"figures/entropy-{number}.svg" for number in (5, 7, 9, 10)}
    assert "<img" in texts["papers/entropy.rst"]


def test_links_among_the_pages_resolve(extension, two_runs, tmp_path):
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


def test_a_page_that_is_not_wanted_any_more_is_removed_and_an_equal_one_stays(extension, two_runs, tmp_path):
    folder = tmp_path / "pages"
    extension.write(folder)
    (folder / "runs" / "gone.rst").write_text("old")
    (folder / "index.md").write_text("by hand")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    extension.write(folder)
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert before.keys() - after.keys() == {folder / "runs" / "gone.rst"}
    assert after == {path: time for path, time in before.items() if path in after}


def test_tables_on_other_images_are_those_of_the_shipped_record(tmp_path, monkeypatch, tracker):
    """The network was given as a file, which is not here; the table and the experiment have its runs nonetheless."""
    whole = ExportedRuns(PROJECT / "reproduction" / "record.jsonl.gz")
    file = "simpleshot_protonet_conv4_5shot.npz"
    on_mini = [run for run in whole.runs if run.params.get("checkpoint") == file]
    chosen = [run for run in on_mini if run.tags["stage"] == "evaluation" and run.params["strategy"] == "simpleshot"]
    write_runs(tmp_path / "runs.jsonl", chosen, lambda run: whole.files[run.run_id])
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/4.4"])
    monkeypatch.setattr("runs.report.papers.works", lambda: {"thesis": "The thesis"})
    reader = Reader((), tracker, ExportedRuns(tmp_path / "runs.jsonl"))

    (paper,) = reader.papers()
    (table,) = paper.elsewhere["thesis/4.4"]
    assert table.name == "thesis/4.4@mini, simpleshot_protonet_conv4_5shot"
    assert {row.name for (row, _), cell in table.cells.items() if cell.results or cell.shipped} == {"N(Y)"}
    names = [experiment.name for experiment in reader.experiments({})]
    assert "all_strategies@mini, simpleshot_protonet_conv4_5shot" in names
    assert all("@mini" in name for name in names)


def test_tables_of_similar_names_have_a_place_each(two_runs, tracker):
    reader = Reader((), tracker, shipped_runs())
    paper = reader.papers()[0]
    table = paper.tables[0]
    named = [dataclasses.replace(table, name=f"thesis/3.2@{name}") for name in ("a b", "a-b", "a" * 90, "a" * 91)]
    experiments = [dataclasses.replace(table, name=name) for name in ("a b", "a-b", "A-B")]
    paper = dataclasses.replace(paper, elsewhere={"thesis/3.2": tuple(named)})
    outcomes = Outcomes([paper], {}, experiments, Renderer(Site(run=lambda run_id: None)))
    places = [outcomes.place(table) for table in (*named, *experiments)]
    assert len(set(map(str.lower, places))) == len(places)


def test_two_networks_whose_files_have_one_name_have_a_table_each(monkeypatch, tracker):
    """Such as best.pt in two folders. The same weights in two folders are one network."""
    whole = ExportedRuns(PROJECT / "reproduction" / "record.jsonl.gz")
    files = ("simpleshot_protonet_conv4_5shot.npz", "rap_mini_protonet_conv4_5shot.npz")
    first, second = (
        [run for run in whole.runs if run.params.get("checkpoint") == file and run.params.get("strategy") == "kmeans"]
        for file in files
    )

    def placed(runs, folder):
        named = {"checkpoint": f"{folder}/{files[0]}"}
        return [
            dataclasses.replace(run, run_id=folder * 8 + run.run_id[8:], params={**run.params, **named}) for run in runs
        ]

    whole.runs = [*first, *placed(second, "b"), *placed(first, "c")]
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["slk_fewshot/II"])
    monkeypatch.setattr("runs.report.papers.works", lambda: {"slk_fewshot": "The journal paper"})
    reader = Reader((), tracker, whole)
    (paper,) = reader.papers()
    weights = [of_network[0].tags["weights"][:8] for of_network in (first, second)]
    titles = [f"@mini, {files[0][:-4]} ({of_network})" for of_network in weights]
    assert [table.name for table in paper.elsewhere["slk_fewshot/II"]] == [f"slk_fewshot/II{title}" for title in titles]
    shown = [
        {result.run_id[:8] for cell in table.cells.values() for result in cell.results}
        for table in paper.elsewhere["slk_fewshot/II"]
    ]
    assert "bbbbbbbb" not in shown[0]
    assert shown[1] == {"bbbbbbbb"}
    assert {f"all_strategies{title}" for title in titles} <= {table.name for table in reader.experiments({})}


@pytest.mark.parametrize("backbone", ["of_a_plugin", ""])
def test_a_network_that_is_unknown_here_has_no_table(monkeypatch, tracker, backbone):
    whole = ExportedRuns(PROJECT / "reproduction" / "record.jsonl.gz")
    run = next(run for run in whole.runs if run.tags["stage"] == "evaluation" and "weights" in run.tags)
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/4.4"])
    monkeypatch.setattr("runs.report.papers.works", lambda: {"thesis": "The thesis"})
    (paper,) = Reader([dataclasses.replace(run, params={**run.params, "backbone": backbone})], tracker).papers()
    assert paper.elsewhere == {"thesis/4.4": ()}


def test_runs_of_other_revisions_make_no_table_and_tables_on_other_data_are_in_groups(extension, tmp_path, monkeypatch):
    whole = ExportedRuns(PROJECT / "reproduction" / "record.jsonl.gz")
    on_usps = (run for run in whole.runs if run.experiment == "cluster/usps")
    source = next(run for run in on_usps if run.tags["method"] == "kmodes")
    other = source.tags | {"revisions": "method 2"}
    monkeypatch.setattr("runs.tables.shipped.PLACE", tmp_path / "runs.jsonl.gz")
    monkeypatch.setattr("runs.report.papers.published_names", lambda: ["thesis/2.2", "thesis/2.3"])
    monkeypatch.setattr("runs.report.papers.works", lambda: {"thesis": "The thesis"})
    found = []
    for tags in (source.tags, other):
        run = dataclasses.replace(source, tags=tags)
        write_runs(tmp_path / "runs.jsonl.gz", [run], lambda run: whole.files[run.run_id])
        found.append(dict(extension.pages(tmp_path / "empty")))
    shown, empty = found
    assert '<a href="papers/thesis.html#thesis-2.2-usps">thesis/2.2@usps</a>' in shown["overview.html"]
    assert "Table 2.2 on usps" in shown["papers/thesis.rst"]
    assert "usps" not in empty["overview.html"] + empty["papers/thesis.rst"]
