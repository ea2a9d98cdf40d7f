"""The origin of each number: an entry for every run that a page shows, on the page of its experiment."""

import dataclasses
import functools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from markupsafe import Markup

from runs.config.configs import TrainConfig
from runs.config.yaml_files import as_yaml
from runs.record.machine import machine_of
from runs.record.query import RunRow, source_runs
from runs.report.rendering import Renderer, date, environment, slug

TUNING_RUN, TRAINING = "tuning_run", "training_key"  # tags that refer to other runs
VERBS = {  # by the stage of a run
    "checkpoint": "train",
    "tuning": "tune",
    "evaluation": "evaluate",
    "clustering": "cluster",
    "fair": "fair",
}
FILES = {"root": "FOLDER", "path": "FILE", "features_root": "FOLDER", "checkpoint": "FILE", "pretrained": "FILE"}
FINGERPRINTS = {
    "code": "commit",
    "key": "key",
    "data": "images",
    "target_data": "images of the target",
    "base_images": "base images",
    "weights": "weights",
    "training_key": "folder in cache/checkpoint",
    "checkpoint": "checkpoint",
    "features": "features",
}
ABOUT = (
    "Each run with its config, and the fingerprints of its inputs: digits computed from the content. Accuracies are "
    "fractions of 1; accuracy_ci95 is the number after ± in a table. Of a clustering, plain names are of the start "
    "that the method itself finds best, _mean and _std over its starts, _label_selected of the trial that labels "
    "choose. Of a fair clustering with several weights, plain names are of the last weight, and best_ of the smallest "
    "weight with the least error."
)


class Provenance:
    """Entries of runs, created for the runs that are requested, and those that they were computed from.

    Args:
        rows: all runs of the record.
        server: the address of the MLflow server that holds them, or None.
    """

    def __init__(self, rows: Iterable[RunRow], server: str | None = None) -> None:
        self._by_id = {row.run_id: row for row in rows}
        self._server = server
        self.requested: dict[str, RunRow] = {}

    def href(self, run_id: str) -> str | None:
        """The path of a run's entry in the site, or None if the record does not contain the run."""
        waiting = [run_id] if run_id in self._by_id else []
        while waiting:
            asked = waiting.pop()
            if asked not in self.requested:
                self.requested[asked] = self._by_id[asked]
                waiting += reversed([origin for _, _, origin in self.origins(self._by_id[asked]) if origin])
        return self._place(self._by_id[run_id]) if run_id in self._by_id else None

    def pages(self, renderer: Renderer) -> Iterator[tuple[str, str]]:
        """(path, text) of the pages of all entries that were requested so far."""
        by_path: dict[str, list[RunRow]] = {}
        for row in self.requested.values():
            by_path.setdefault(self.page_of(row.experiment), []).append(row)
        for path, rows in by_path.items():
            entries = Markup("\n").join(self.entry(row, renderer, path) for row in rows)
            yield renderer.page(path, f"Runs of {rows[0].experiment}", introduction=[ABOUT], body=entries)

    def page_of(self, experiment: str) -> str:
        """The path of the page of an experiment."""
        return f"runs/{slug(experiment)}.html" if slug(experiment) != "index" else "runs/of-index.html"

    def _place(self, row: RunRow) -> str:
        return f"{self.page_of(row.experiment)}#run-{row.run_id}"

    def entry(self, run: RunRow, renderer: Renderer, path: str) -> Markup:
        """The entry of a run, for the page at `path`."""
        tags, took = run.tags, f", took {duration(run.end - run.start)}" if run.end else ""
        facts: dict[str, str | Markup] = {"run": run.run_id}
        facts |= {"machine": machine_of(tags), "began": f"{date(run.start)} UTC{took}", **fingerprints(run)}
        for what, name, origin in self.origins(run):
            known = renderer.run_link(path, origin, name) if origin else f"{name} (not in the record)"
            facts[what] = Markup("{} {}").format(facts[what], known) if what in facts else known
        if self._server:
            address = f"{self._server.rstrip('/')}/#/runs/{run.run_id}"
            facts["MLflow"] = Markup('<a href="{}" rel="noreferrer">its page on the server</a>').format(address)
        elif run.artifact_uri:
            facts["artefacts"] = run.artifact_uri
        config = config_yaml(run.params, tags.get("stage", ""))
        shown = {what: value for what, value in facts.items() if value}
        return Markup(
            environment().get_template("run.html").render(run=run, facts=shown, config=config, command=command(run))
        )

    def origins(self, row: RunRow) -> Iterator[tuple[str, str, str | None]]:
        """(kind, name, run id or None if it is not in the record) of each input of a run."""
        if tuning := row.tags.get(TUNING_RUN):
            yield self._origin("values tuned by", tuning, self._by_id.get(tuning))
        for source in source_runs(row.tags):
            yield self._origin("drawn from", source, self._by_id.get(source))
        trained = row.tags.get(TRAINING)
        if trained and row.tags.get("stage") != "checkpoint" and not row.tags.get("weights"):
            yield self._origin("network trained by", trained, self._trainings.get(trained))

    def _origin(self, what: str, key: str, known: RunRow | None) -> tuple[str, str, str | None]:
        return (what, known.name, known.run_id) if known else (what, key, None)

    @functools.cached_property
    def _trainings(self) -> Mapping[str, RunRow]:
        """The newest finished training of each key."""
        found = [row for row in self._by_id.values() if row.tags.get("stage") == "checkpoint"]
        done = sorted((row for row in found if row.status == "FINISHED"), key=lambda row: row.start)
        return {row.tags["key"]: row for row in done if "key" in row.tags}


def fingerprints(run: RunRow) -> dict[str, str]:
    """Fingerprints of a run's inputs, by the name of the input."""
    words = FINGERPRINTS | ({"data": "points"} if run.tags.get("stage") in ("clustering", "fair") else {})
    return {word: run.tags[tag] for tag, word in words.items() if run.tags.get(tag)}


def command(run: RunRow) -> str:
    """The command that repeats a run with its config in `run.yaml` and with files of the user; empty for a figure."""
    verb = VERBS.get(run.tags.get("stage", ""))
    given = {name.rpartition(".")[2] for name, text in run.params.items() if text != "None"}
    files = [f"{key}={value}" for key, value in FILES.items() if key in given]
    return shlex.join(["transduce", verb, "experiment=run.yaml", *files]) if verb else ""


def config_yaml(params: Mapping[str, str], stage: str = "") -> str:
    """A run's parameters as the lines of its config, which `experiment=FILE` reads.

    The values are those used in the run: for a tuned run, the chosen ones. `group.name` and the candidate values of the
    tuning are omitted, because a config does not contain them, and `results`, a folder of the machine of the run. Text
    that looks like a number is written as a number.

    Args:
        params: parameters of the run, as text.
        stage: the tag `stage` of the run. Of a training, keys of evaluations are omitted; of a tuning, the values that
            were tried are written as several values.
    """
    return "".join(
        f"{name}: {text if stage == 'tuning' and SEVERAL.fullmatch(text) else _value(text)}\n"
        for name, text in params.items()
        if name.partition(".")[2] != "name"
        and name != "results"
        and not name.startswith("tuning.")
        and (stage != "checkpoint" or name.partition(".")[0] in KEYS_OF_TRAININGS)
    )


WORDS = {"None": "null", "True": "true", "False": "false"}
PLAIN = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?|\[[\w., +-]*\]", flags=re.ASCII)  # numbers and lists
SEVERAL = re.compile(r"[\w.+-]+(,[\w.+-]+)+", flags=re.ASCII)
KEYS_OF_TRAININGS = {field.name for field in dataclasses.fields(TrainConfig)}


@functools.lru_cache(maxsize=4096)  # thousands of runs share few distinct values
def _value(text: str) -> str:
    return WORDS.get(text) or (text if PLAIN.fullmatch(text) else as_yaml(text))


def duration(milliseconds: float) -> str:
    """A duration in hours, minutes or seconds: the largest unit that does not exceed it."""
    seconds = milliseconds / 1000
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"
