"""`transduce report`: write all tracked runs as a static site."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags, describe
from runs.cli.keys import read_keys
from runs.console.output import Console

if TYPE_CHECKING:
    from runs.track import Tracker

FLAGS = ("open", "counts", "json")
KEYS: dict[str, Any] = {"results": None}
LISTS = ("claims", "reasons")  # counts that are shown as JSON only
SHOWN = 5  # warnings about single runs that are printed; the others are counted
ABOUT = """\
usage: transduce report [key=value ...] [--flag ...]

Write a static site of the tracked runs: the tables of each paper with the printed values beside those of the shipped
runs and of your own, each method with its results and convergence, and for every number a link to its run. The site
works offline. It is written to the folder report/ of the results. --counts prints how many cells of the papers' tables
have a printed number, shipped runs ("shipped") and runs of your own ("own"), and how many have each verdict; with
--json also for each table, and with what the other cells need.

keys:
  results=null    folder of results; null: $TRANSDUCE_RESULTS, else results/ here

flags:
{flags}

examples:
  transduce report
  transduce report --open
  transduce report --counts
"""


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    return ABOUT.format(flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Write the site, and print its address."""
    results = read_keys(flags.settings, KEYS)["results"]
    if results == "":
        raise InputError("results= is empty; give a folder, or omit it")
    if flags.json and not flags.counts:
        raise InputError("--json prints the counts; add --counts, or omit --json for the site")
    if flags.open and flags.counts:
        raise InputError("--counts writes no site to open; omit --open or --counts")
    from runs.cache import Store
    from runs.report.site import build_report
    from runs.track import Tracker

    store = Store(results)
    warnings: list[str] = []  # many runs may have lost their files
    tracker = Tracker(store, say=warnings.append)
    if flags.counts:
        _show_counts(tracker, console)
        return 0
    page = build_report(store, tracker, say=console.note).as_uri()
    for warning in warnings[:SHOWN]:
        console.note(warning)
    if len(warnings) > SHOWN:
        console.note(f"and {len(warnings) - SHOWN:,} more such warnings")
    console.write(page)
    if flags.open:
        import webbrowser

        if not webbrowser.open(page):
            console.note("no browser found to open the report")
    return 0


def _show_counts(tracker: "Tracker", console: Console) -> None:
    """Print the numbers of cells by work; as JSON, also by table."""
    from runs.tables.counts import Counts
    from runs.tables.evidence import look_up
    from runs.tables.papers.paper import paper_table
    from runs.tables.papers.published import published_names, works

    tables = [look_up(paper_table(name), tracker) for name in published_names()]
    by_work = {work: [table for table in tables if table.name.partition("/")[0] == work] for work in works()}
    counts = [*(Counts.of(work, of_work) for work, of_work in by_work.items()), Counts.of("all", tables)]
    if console.as_json:
        by_table = [Counts.of(table.name, [table]).record() for table in tables]
        console.json({"works": [of_work.record() for of_work in counts], "tables": by_table})
        return
    rows = [{name: value for name, value in of_work.record().items() if name not in LISTS} for of_work in counts]
    spelt = [{name: str(value or "") for name, value in row.items()} for row in rows]
    console.table(spelt, title="cells of the papers' tables, by verdict", right=list(rows[0])[1:])
