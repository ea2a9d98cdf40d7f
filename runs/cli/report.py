"""`transduce report`: write all tracked runs as a static site."""

from collections.abc import Sequence
from typing import Any

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags, describe
from runs.cli.keys import read_keys
from runs.console.output import Console

FLAGS = ("open",)
KEYS: dict[str, Any] = {"results": None}
SHOWN = 5  # warnings about single runs that are printed; the others are counted
ABOUT = """\
usage: transduce report [key=value ...] [--flag ...]

Write a static site of the tracked runs: the tables of each paper with the printed values beside the measured ones, each
method with its results and convergence, and for every number a link to its run. The site works offline. It is written
to the folder report/ of the results.

keys:
  results=null    folder of results; null: $TRANSDUCE_RESULTS, else results/ here

flags:
{flags}

examples:
  transduce report
  transduce report --open
"""


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    return ABOUT.format(flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Write the site, and print its address."""
    results = read_keys(flags.settings, KEYS)["results"]
    if results == "":
        raise InputError("results= is empty; give a folder, or omit it")
    from runs.record.tracking import Tracker
    from runs.report.site import build_report
    from runs.storage.store import Store

    store = Store(results)
    warnings: list[str] = []  # many runs may have lost their files
    page = build_report(store, Tracker(store, say=warnings.append), say=console.note).as_uri()
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
