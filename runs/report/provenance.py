"""The origin of each number: an entry for every run that a page shows, divided into pages by experiment."""

import dataclasses
import functools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from runs.config.configs import TrainConfig
from runs.config.yaml_files import as_yaml
from runs.record.machine import machine_of
from runs.record.query import RunRow, source_runs
from runs.report.addresses import Names, numbered

RUNS_A_PAGE = 60
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


@dataclasses.dataclass(frozen=True)
class ListedRun:
    """The description of one run.

    Attributes:
        anchor: anchor of the entry on its page.
        config: its parameters, as YAML that `experiment=FILE` reads.
        origins: (kind, name, run id or None if it is not in the record) of each input of the run.
        link: its page on the MLflow server, if the record is on a server.
    """

    run: RunRow
    anchor: str
    config: str
    origins: tuple[tuple[str, str, str | None], ...]
    link: str | None

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of the run's inputs, by the name of the input."""
        tags = self.run.tags
        words = FINGERPRINTS | ({"data": "points"} if tags.get("stage") in ("clustering", "fair") else {})
        return {word: tags[tag] for tag, word in words.items() if tags.get(tag)}

    @property
    def command(self) -> str:
        """The command that repeats the run with its config in `run.yaml` and with files of the user; empty for a
        figure."""
        verb, params = VERBS.get(self.run.tags.get("stage", "")), self.run.params
        if verb is None:
            return ""
        given = {name.rpartition(".")[2] for name, text in params.items() if text != "None"}
        files = [f"{key}={value}" for key, value in FILES.items() if key in given]
        return shlex.join(["transduce", verb, "experiment=run.yaml", *files])

    @property
    def machine(self) -> str:
        """The machine that made it; empty if it is not known."""
        return machine_of(self.run.tags)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One page of entries."""

    path: str
    experiment: str
    number: int
    entries: tuple[ListedRun, ...]


class Provenance:
    """Entries of runs, created for the runs that are requested.

    Args:
        rows: all runs of the record.
        server: the address of the MLflow server that holds them, or None.
    """

    def __init__(self, rows: Iterable[RunRow], server: str | None = None) -> None:
        self._by_id = {row.run_id: row for row in rows}
        self._server = server
        self._pages: dict[str, list[str]] = {}  # experiment -> run ids, in the order of the requests
        self._places: dict[str, str] = {}
        self._names = Names(taken=("index",))

    def href(self, run_id: str) -> str | None:
        """The path of a run's entry in the site, or None if the record does not contain the run."""
        if run_id not in self._by_id:
            return None
        waiting = [run_id]
        while waiting:
            requested = waiting.pop()
            if requested in self._places:
                continue
            row = self._by_id[requested]
            page = self._pages.setdefault(row.experiment, [])
            page.append(requested)
            self._places[requested] = f"{self._path(row.experiment, (len(page) - 1) // RUNS_A_PAGE)}#run-{requested}"
            waiting += reversed([origin for _, _, origin in self._origins(row) if origin])
        return self._places[run_id]

    def leaves(self) -> Iterator[Leaf]:
        """The pages of all requested entries, and of the runs that these were computed from."""
        for experiment, ids in self._pages.items():
            for first in range(0, len(ids), RUNS_A_PAGE):
                number = first // RUNS_A_PAGE
                entries = tuple(self._entry(self._by_id[run_id]) for run_id in ids[first : first + RUNS_A_PAGE])
                yield Leaf(self._path(experiment, number), experiment, number + 1, entries)

    def pages(self, experiment: str) -> list[str]:
        """The paths of the pages of an experiment; empty if none of its runs was requested."""
        count = -(-len(self._pages.get(experiment, ())) // RUNS_A_PAGE)
        return [self._path(experiment, number) for number in range(count)]

    def _path(self, experiment: str, number: int) -> str:
        return numbered(f"runs/{self._names[experiment]}.html", number + 1)

    def _entry(self, row: RunRow) -> ListedRun:
        link = f"{self._server.rstrip('/')}/#/runs/{row.run_id}" if self._server else None
        config = config_yaml(row.params, row.tags.get("stage", ""))
        return ListedRun(row, f"run-{row.run_id}", config, tuple(self._origins(row)), link)

    def _origins(self, row: RunRow) -> Iterator[tuple[str, str, str | None]]:
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


def date(milliseconds: int | None) -> str:
    """The time in UTC, to the minute; empty if it is missing or out of the range of the calendar."""
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return ""


def newest(rows: Sequence[RunRow], count: int) -> list[RunRow]:
    """The `count` runs with the latest start times."""
    return sorted(rows, key=lambda row: (-row.start, row.run_id))[:count]
