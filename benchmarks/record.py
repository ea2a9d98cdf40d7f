"""What reading the record of runs costs: 10,000 runs of which 1,000 match, against the least that could be done for it.

A store is filled with copies of what evaluations of the quickstart leave, 1,000 of them on glyphs and the others on
another benchmark. From SQLite each contestant is compared with one bare query that fetches the runs that match with
their params, metrics and tags; from an MLflow server on the same database, with a bare `search_runs`, page by page.
The sides take turns in one process, and the ratio is the median over the turns.

    python benchmarks/record.py [--runs 10000] [--matching 1000] [--turns 7]
"""

import argparse
import os
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine import describe
from turns import take_turns, timed

from runs.cache import Store
from runs.config.configs import EvaluateConfig, parse
from runs.record.query import read_runs
from runs.report.site import build_report
from runs.stages.lineage import Lineage, common_tags, evaluate_name
from runs.tables.filling import filled
from runs.tables.grid import table_of
from runs.tables.papers.paper import judged
from runs.tables.papers.paper import paper_table as empty_table
from runs.tables.table import Table
from runs.track import Tracker

MATCHING = {"stage": ["evaluation"], "benchmark": ["glyphs"]}


@dataclass(frozen=True)
class Contestant:
    """Something that reads the record, and how many times the bare reading it may cost."""

    read: Callable[[Tracker], object]
    goal: float


def experiment_table(tracker: Tracker) -> Table:
    """The cells of an experiment, from its name on. Claims are apart: they read files of the runs."""
    table = filled(table_of("quickstart", parse(EvaluateConfig, ["experiment=quickstart"])), tracker)
    assert not table.missing
    return table


def paper_table(tracker: Tracker) -> Table:
    """The cells of a paper's table on another benchmark, with their verdicts."""
    return judged(filled(empty_table("slk_fewshot/II@glyphs", ["tasks=2000", "tuning=null"]), tracker))


CONTESTANTS: Mapping[str, Contestant] = {
    "read_runs": Contestant(lambda tracker: read_runs(tracker, "evaluate/", tags=MATCHING), 1.5),
    "table quickstart": Contestant(experiment_table, 3),
    "table slk_fewshot/II@glyphs": Contestant(paper_table, 3),
}


# The store.


def evaluated(tracker: Tracker, config: EvaluateConfig) -> None:
    """A finished run as an evaluation leaves it, but for its files."""
    lineage = Lineage.of(config)
    run = tracker.start(
        "evaluate/glyphs",
        evaluate_name(config),
        stage="evaluation",
        key=lineage.evaluation(config),
        params=config.flat(),
        config=config.to_yaml(),
        flat=config.flat(),
        tags=common_tags(config, lineage)
        | {"strategy": config.strategy.name, "sampler": config.sampler.name}
        | {name: config.sampler.options[name] for name in ("way", "shot", "query")}
        | {"split": config.split, "checkpoint": "0" * 16, "features": "1" * 16, "interval": "over tasks"}
        | {"transductive": config.strategy.kind.transductive, "assumes_balance": config.strategy.kind.assumes_balance},
    )
    means = {"accuracy": 0.5, "accuracy_ci95": 0.002, "accuracy_per_class": 0.5, "iterations_mean": 7.25}
    run.log(metrics=means | {"seconds_per_task": 1e-3, "seconds": 2.0, "tasks": 2000})
    run.finish()


COPIES = """
create temp table copies as
    with recursive numbers(number) as (select 0 union all select number + 1 from numbers where number + 1 < :runs)
    select number, lower(hex(randomblob(16))) as new, number / :originals as seed, number < :matching as matches,
        (select run_uuid from originals where originals.rowid - 1 = number % :originals) as old
    from numbers order by random()"""
COPIED = (
    """insert into runs select new, name, source_type, source_name, entry_point_name, user_id, status,
        start_time + number, end_time + number, source_version, lifecycle_stage, artifact_uri,
        iif(matches, experiment_id, :other), deleted_time
    from copies cross join runs on run_uuid = old""",
    """insert into params select key, case when key = 'seed' then seed
        when key = 'benchmark' and not matches then 'other' else value end, new
    from copies cross join params on run_uuid = old""",
    """insert into tags select key, case when key = 'seed' then seed when key = 'key' then substr(new, 1, 16)
        when key = 'benchmark' and not matches then 'other' else value end, new
    from copies cross join tags on run_uuid = old""",
    """insert into latest_metrics select key, value + seed / 1e4 * (key = 'accuracy'), timestamp, step, is_nan, new
    from copies cross join latest_metrics on run_uuid = old""",
)


def fill(store: Store, runs: int, matching: int) -> Tracker:
    """A record of so many runs: every cell of the quickstart once for each of many seeds, and as many of another
    benchmark as are left."""
    tracker = Tracker(store)
    configs = parse(EvaluateConfig, ["experiment=quickstart"])
    for config in configs:
        evaluated(tracker, config)
    other = tracker.experiment("evaluate/other")
    values = {"runs": runs, "matching": matching, "originals": len(configs), "other": other}
    with closing(sqlite3.connect(store.database)) as database, database:
        database.execute("create temp table originals as select run_uuid from runs")
        database.execute(COPIES, values)
        for query in COPIED:
            database.execute(query, values)
        for table in ("params", "tags", "latest_metrics", "metrics", "runs"):
            database.execute(f"delete from {table} where run_uuid in (select run_uuid from originals)")
    return tracker


# The least that could be done.

WANTED = """
with wanted as materialized (
    select runs.* from runs join experiments using (experiment_id)
    where experiments.name like 'evaluate/%' and experiments.lifecycle_stage = 'active'
        and runs.lifecycle_stage = 'active' and status = 'FINISHED'
        and exists (select 1 from tags where key = 'benchmark' and value = 'glyphs' and tags.run_uuid = runs.run_uuid)
        and exists (select 1 from tags where key = 'stage' and value = 'evaluation' and tags.run_uuid = runs.run_uuid)
)
select run_uuid, name, status, start_time, end_time, artifact_uri from wanted
union all select run_uuid, 'param', key, value, null, null from wanted join params using (run_uuid)
union all select run_uuid, 'tag', key, value, null, null from wanted join tags using (run_uuid)
union all select run_uuid, 'metric', key, value, is_nan, null from wanted join latest_metrics using (run_uuid)"""


def bare_query(tracker: Tracker) -> list[Any]:
    """One query, and all its rows."""
    with closing(sqlite3.connect(tracker.store.database)) as database:
        return database.execute(WANTED).fetchall()


def race(tracker: Tracker, bare: Callable[[Tracker], object], turns: int) -> None:
    """Every contestant against the bare reading."""
    sides = {"bare": bare} | {name: contestant.read for name, contestant in CONTESTANTS.items()}
    for side in sides.values():  # the first time pays for connections and imports
        side(tracker)
    work = {name: (lambda side=side: timed(lambda: side(tracker))) for name, side in sides.items()}
    seconds = take_turns(work, turns)
    print(f"  {bare.__name__.replace('_', ' ')}: {1000 * statistics.median(seconds['bare']):.0f} ms")
    for name, contestant in CONTESTANTS.items():
        ratio = statistics.median(mine / least for mine, least in zip(seconds[name], seconds["bare"], strict=True))
        mine = 1000 * statistics.median(seconds[name])
        print(f"  {name}: {mine:.0f} ms, {ratio:.2f} of it (goal: at most {contestant.goal})")


def race_report(tracker: Tracker, turns: int) -> None:
    """The whole report against reading every run once, which is all that it may ask of the record."""
    everything = {
        "every run": lambda: read_runs(tracker, ""),
        "the report": lambda: build_report(tracker.store, tracker),
    }
    work = {name: (lambda side=side: timed(side)) for name, side in everything.items()}
    seconds = take_turns(work, turns)
    least, mine = (statistics.median(seconds[name]) for name in everything)
    pages = len(list((tracker.store.root / "report").rglob("*.html")))
    print(f"  every run, read once: {least:.1f} s")
    print(f"  the report: {mine:.1f} s, {mine / least:.1f} times that, {pages} pages")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--matching", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        tracker = fill(store, options.runs, options.matching)
        rows = read_runs(tracker, "evaluate/", tags=MATCHING)
        params, tags, metrics = (len(part) for part in (rows[0].params, rows[0].tags, rows[0].metrics))
        print(f"{options.runs:,} runs, {len(rows):,} match: {params} params, {tags} tags, {metrics} metrics each")
        print("SQLite")
        race(tracker, bare_query, options.turns)
        race_report(tracker, min(options.turns, 3))


if __name__ == "__main__":
    main()
