"""Leave out trials of an export that no table and no claim reads, so that the shipped record is below 20 MB.

reproduction/shorten.py FILE OUT leaves out trials.npz of XSDC, of seeded K-means, and of the experiment
entropy_updates. The drawings of their figures remain; to draw one again, its runs must be run again.
"""

import sys
from pathlib import Path

from runs.config.configs import ClusterConfig, parse
from runs.record.exported import ExportedRuns, write_runs
from runs.record.query import RunRow
from runs.stages.clustering.results import TRIALS

UPDATES = {str(c.method.options["max_iter"]) for c in parse(ClusterConfig, ["experiment=entropy_updates"])}


def needless(run: RunRow) -> bool:
    """Whether the trials of a run are left out."""
    method = run.tags.get("method", "")
    of_updates = method in ("entropy", "miadm") and run.params.get("method.max_iter") in UPDATES
    return method.startswith(("xsdc", "seeded_kmeans")) or (of_updates and run.tags.get("dataset") == "mnist")


def kept(exported: ExportedRuns, run: RunRow) -> dict[str, bytes]:
    """The files of a run that are kept."""
    return {name: file for name, file in exported.files[run.run_id].items() if name != TRIALS or not needless(run)}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: reproduction/shorten.py FILE OUT")
    source, out = map(Path, sys.argv[1:])
    runs = ExportedRuns(source)
    write_runs(out, runs.runs, lambda run: kept(runs, run))
