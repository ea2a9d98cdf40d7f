"""`transduce report`: the record of runs as a static site."""

from collections.abc import Sequence
from typing import Any

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags, describe
from runs.cli.keys import read_keys
from runs.console.output import Console

FLAGS = ("open",)
KEYS: dict[str, Any] = {"results": None}
TOLD = 5  # troubles with single runs that are told one by one
ABOUT = """\
usage: transduce report [key=value ...] [--flag ...]

Write a static site of the runs that were made here: each paper's tables with what was found beside what is printed,
each method with its results and convergence, and for every number the run that it is from. No network is needed to
read it. It stands in the folder report/ of the results.

keys:
  results=null    folder of results; null: $TRANSDUCE_RESULTS, else results/ here

flags:
{flags}

examples:
  transduce report
  transduce report --open
"""


def usage(settings: Sequence[str]) -> str:
    """The help of this verb."""
    return ABOUT.format(flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Write the site, and say where it is."""
    results = read_keys(flags.settings, KEYS)["results"]
    if results == "":
        raise InputError("results= is empty; give a folder, or leave it out")
    from runs.record.tracking import Tracker
    from runs.report.site import build_report
    from runs.storage.store import Store

    store = Store(results)
    troubles: list[str] = []  # a run whose files are gone is one of many, sometimes
    page = build_report(store, Tracker(store, say=troubles.append), say=console.note).as_uri()
    for trouble in troubles[:TOLD]:
        console.note(trouble)
    if len(troubles) > TOLD:
        console.note(f"and {len(troubles) - TOLD:,} more like these")
    console.write(page)
    if flags.open:
        import webbrowser

        if not webbrowser.open(page):
            console.note("no browser to open it in was found")
    return 0
