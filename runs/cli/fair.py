"""`transduce fair`: fair clustering along weights, and what fairness costs."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs.cli.flags import Flags
from runs.config.configs import FairConfig, parse
from runs.console.output import Console
from runs.stages.lineage import short_name

if TYPE_CHECKING:
    from runs.cli.session import Session
    from runs.figures.logged import LoggedFigure
    from runs.own_data.table_outputs import Written
    from runs.stages.fair.results import FairResult

FLAGS = ("dry-run", "force", "json")
ABOUT = """\
Cluster people, or other things that belong to groups, so that every cluster has the groups in the proportions that they
have in the data, as nearly as a weight asks for. All weights are one run: each begins where the one before it ended.
Shown at each: the objective, its price over the unfair solution, the fairness error (sum over clusters of
KL(target || proportions)), the least and mean balance of a cluster, and groups that a cluster lacks. The star is at the
smallest weight that reaches the least error. A finished path is used again, an interrupted one begins anew."""
EXAMPLES = (
    "",
    "dataset=table path=people.csv sensitive=sex n_clusters=3     (a table of your own)",
    "dataset=adult root=FOLDER method=fair_kmeans,fair_lloyd fairness_weight=0,10,100 n_clusters=10",
    "dataset=adult root=FOLDER sensitive=race 'target=[0.2, 0.2, 0.2, 0.2, 0.2]'",
    "method=fair_kmedian,backurs,bera kind=kmedian delta=0.1,0.2 seed=0,1,2",
    "method=fair_ncut --help             (the parameters of that method)",
    "dataset=mypackage.mymodule:MyPoints method=mypackage.mymodule:MyMethod",
)


def usage(settings: Sequence[str]) -> str:
    """The help of this verb."""
    from runs.cli.usage import usage as write_usage

    return write_usage("fair", ABOUT, FairConfig, FLAGS, EXAMPLES, settings)


def run(flags: Flags, console: Console) -> int:
    """Cluster what the settings ask for, and show what it costs."""
    configs = parse(FairConfig, flags.settings)
    from runs.cli.session import Session
    from runs.own_data.own_fair_table import check_fair_tables, write_fair_outputs
    from runs.own_data.table_outputs import is_table, typed

    for columns in check_fair_tables(configs):
        columns.say(console.note)
    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    results, failed = session.fair(configs, force=flags.force)

    def fit(config: FairConfig) -> "FairResult":
        found, wrong = session.fair([config], force=False)
        if wrong:
            raise wrong[0]
        return found[0]

    written = [
        write_fair_outputs(result, session.store, typed(result.config, configs, flags.settings), fit)
        if is_table(result.config)
        else None
        for result in results
    ]
    by_points = {
        points: [result for result in results if _points(result.config) == points]
        for points in dict.fromkeys(_points(result.config) for result in results)
    }
    figures = {points: _figure(points, own, session) for points, own in by_points.items()}
    if console.as_json:
        pairs = zip(results, written, strict=True)
        console.json([_record(result, figures[_points(result.config)], files) for result, files in pairs])
    else:
        for own in by_points.values():
            show(own, session.varying, console)
    for files in filter(None, written):
        console.note(f"rows with their clusters: {files.rows}")
        console.note(f"how fair the clusters are: {files.page.resolve().as_uri()}")
    for figure in figures.values():
        console.note(f"picture: {figure.files[0].with_suffix('')}.pdf, .svg and .png")
    if results:
        session.close()
    if failed:
        raise failed[0]
    return 0


def show(results: "Sequence[FairResult]", varying: Any, console: Console) -> None:
    """The trade-offs on one data set as a table."""
    from runs.tables.trade_off import footnote, rows, title

    found = rows(results, varying)
    right = [name for name in dict.fromkeys(name for row in found for name in row) if "\n" in name]
    console.table(found, title=title(results), right=right)
    if marks := footnote(results):
        console.write(marks)


def _figure(points: str, results: "Sequence[FairResult]", session: "Session") -> "LoggedFigure":
    """The picture of all results on a data set, drawn or taken from the record."""
    from runs.figures.logged import logged_figure
    from runs.figures.trade_off import DRAWING

    shown = hashlib.sha256(" ".join(result.identity for result in results).encode()).hexdigest()[:6]
    name, where = f"fair/{short_name(results[0].config.dataset.name)}", (session.store, session.tracker)
    files = f"fair/{short_name(Path(points).stem)}-{shown}"  # other results leave this picture as it is
    return logged_figure(name, DRAWING, results, *where, say=session.console.note, files_as=files)


def _points(config: FairConfig) -> str:
    """What tells the points of configs apart, for a person: the data set, or the file of a table of one's own."""
    from runs.own_data.table_outputs import is_table

    return str(config.dataset.options["path"]) if is_table(config) else config.dataset.name


def _record(result: "FairResult", figure: "LoggedFigure", files: "Written | None") -> dict[str, Any]:
    """A result, for JSON."""
    found = result.found
    finite = [
        {name: value for name, value in found.metrics(step).items() if math.isfinite(value)}
        for step in range(len(found.weights))
    ]
    return {
        "config": result.config.as_json(),
        "weights": finite,
        "best": found.fairest,
        "groups": dict(zip(found.group_names.tolist(), found.group_sizes.tolist(), strict=True)),
        "target": found.target.tolist(),
        "data_balance": found.data_balance,
        "objective": result.kind,
        "n_clusters": result.n_clusters,
        "points": result.shape[0],
        "identity": result.identity,
        "run": result.run_id,
        "picture": str(figure.files[0]),
        "reused": result.reused,
        **({} if files is None else files.record()),
    }
