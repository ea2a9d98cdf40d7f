"""`transduce record`: export finished runs to a file, and import them on another machine."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags, describe
from runs.cli.keys import read_keys
from runs.console.output import Console

FLAGS: tuple[str, ...] = ()
KEYS: dict[str, Any] = {"experiments": "", "results": None}
ABOUT = """\
usage: transduce record export FILE [key=value ...] [--flag ...]
       transduce record import FILE [key=value ...] [--flag ...]

export writes finished runs to FILE: configs, tags, the last value of each metric, and artefacts of at most 256 kB. The
folders of this machine are left out. A FILE that ends in .gz is compressed. Each run is stored with the outcome of a
small case, which shows later whether edited code still gives the same results. Computing the outcomes takes about a
minute. Runs that an import would refuse, such as those of other programs, are named and left out.
import adds these runs to the record of another machine, where they fill tables like its own.
Existing runs are skipped. No code in a file is executed.

keys:
  experiments=     export: only experiments whose name starts with this text, such as cluster/mnist; default: all
  results=null     folder of results; null: $TRANSDUCE_RESULTS, else results/ here

flags:
{flags}

examples:
  transduce record export runs.jsonl.gz
  transduce record import runs.jsonl.gz
  transduce record export fair.jsonl.gz experiments=fair/
"""


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    return ABOUT.format(flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Export or import runs."""
    words = [word for word in flags.settings if "=" not in word]
    if len(words) != 2 or words[0] not in ("export", "import"):
        raise InputError("give an action and a file: transduce record export FILE, or transduce record import FILE")
    action, path = words[0], Path(words[1])
    values = read_keys([word for word in flags.settings if "=" in word], KEYS)
    if action == "import" and values["experiments"]:
        raise InputError("experiments= only applies to export; an import adds all runs of the file")
    from runs.cache import Store
    from runs.record.exports.exported import ExportedRuns
    from runs.record.exports.transfer import export_runs, import_runs
    from runs.track import Tracker

    tracker = Tracker(Store(values["results"]), say=console.note)
    if action == "export":
        from runs.stages.small_cases.outcomes import outcome_of

        outcome = functools.partial(outcome_of, say=console.note)
        count = export_runs(tracker, path, values["experiments"], outcome)
        console.note(f"{count:,} runs exported: {path}, {path.stat().st_size / 1e6:.1f} MB")
        return 0
    exported = ExportedRuns(path)
    added = import_runs(exported, tracker)
    console.note(f"{added:,} runs imported to {tracker.place}; {len(exported.runs) - added:,} were there before")
    return 0
