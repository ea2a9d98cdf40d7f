"""Entries of runs in the report: their config, the runs that they come from, and their data."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runs.cache import Store
from runs.config.configs import EvaluateConfig, parse
from runs.record.query import RunRow, read_runs
from runs.report.provenance import Provenance, config_yaml, fingerprints
from runs.report.rendering import Renderer, Site
from runs.track import Tracker

NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?", flags=re.ASCII)


def test_the_config_of_an_entry_is_that_of_the_run(recorded, tracker, tmp_path):
    runs = {run.run_id: run for run in read_runs(tracker, "evaluate/")}
    for result in recorded.values():
        path = tmp_path / f"{result.run_id}.yaml"
        path.write_text(config_yaml(runs[result.run_id].params))
        assert parse(EvaluateConfig, [f"experiment={path}"]) == [result.config]


@given(st.text(min_size=1, max_size=30))
def test_any_path_survives_in_a_config(tmp_path_factory, text):
    assume(text not in ("None", "True", "False") and not NUMBER.fullmatch(text) and "\0" not in text)
    assume(text[0] != "[")  # as lists do
    (config,) = parse(EvaluateConfig, ["benchmark=omniglot", "strategy=simpleshot"])
    config = config.replace(benchmark=config.benchmark.at({"root": text}))
    path = tmp_path_factory.getbasetemp() / "any-path.yaml"
    path.write_text(config_yaml({key: str(value) for key, value in config.flat().items()}), encoding="utf-8")
    assert parse(EvaluateConfig, [f"experiment={path}"]) == [config]


def test_a_network_that_was_trained_here_is_an_entry_too(store, tracker, trained_results, configs):
    """Of a run whose training is in the record, and of one whose training was deleted."""
    origin = Tracker(Store(trained_results))
    rows = read_runs(origin, "")
    (run,) = [row for row in rows if row.tags["stage"] == "evaluation"]
    (training,) = [row for row in rows if row.tags["stage"] == "checkpoint"]
    provenance = Provenance(rows)
    place = provenance.href(run.run_id)
    assert provenance.requested.keys() == {run.run_id, training.run_id}
    assert list(provenance.origins(run)) == [("network trained by", training.name, training.run_id)]
    assert place == f"{provenance.page_of('evaluate/Tiny')}#run-{run.run_id}"
    alone = Provenance([run])
    alone.href(run.run_id)
    assert list(alone.origins(run)) == [("network trained by", run.tags["training_key"], None)]
    assert alone.href(training.run_id) is None


def test_a_long_chain_of_runs_that_name_each_other_has_an_entry_each():
    """As runs of a stranger may."""
    ids = [f"{i:032x}" for i in range(3000)]
    rows = [
        RunRow(one, "a", "figure/a", 0, 1, "FINISHED", {}, {}, {"source_runs": source}, "")
        for one, source in zip(ids, [*ids[1:], ids[0]], strict=True)
    ]
    provenance = Provenance(rows)
    provenance.href(ids[0])
    assert list(provenance.requested) == ids


@pytest.mark.parametrize(("stage", "word"), [("evaluation", "images"), ("clustering", "points")])
def test_the_data_of_a_run_have_their_name(stage, word):
    run = RunRow("a" * 32, "r", "x", 0, 1, "FINISHED", {}, {}, {"stage": stage, "data": "57db"}, "")
    assert fingerprints(run) == {word: "57db"}


def test_on_a_server_an_entry_leads_to_its_page(recorded, tracker):
    runs = read_runs(tracker, "evaluate/")
    provenance = Provenance(runs, "http://127.0.0.1:5000/")
    provenance.href(runs[0].run_id)
    pages = dict(provenance.pages(Renderer(Site(run=provenance.href))))
    assert f"http://127.0.0.1:5000/#/runs/{runs[0].run_id}" in "".join(pages.values())
