"""`transduce fair`: fair clustering along a path of weights, and the price of fairness."""

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
    from runs.own_data.page import Written
    from runs.stages.fair.results import FairResult

FLAGS = ("dry-run", "force", "json")
ABOUT = """\
Cluster points that belong to groups, such as people, so that each cluster has the groups in their proportions in the
data. A fairness weight sets how closely. All weights are one run; each weight starts from the solution of the previous
one. The table shows for each weight the objective, its price relative to the unfair solution, the fairness error (sum
over clusters of KL(target || proportions)), the minimum and mean balance of the clusters, and groups missing from a
cluster. A star marks the smallest weight with the least error. Finished paths are reused; an interrupted one starts
again."""
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
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    return write_usage("fair", ABOUT, FairConfig, FLAGS, EXAMPLES, settings)


def run(flags: Flags, console: Console) -> int:
    """Run the fair clusterings of the settings, and show the price of fairness."""
    configs = parse(FairConfig, flags.settings)
    from runs.cli.session import Session
    from runs.own_data.table_checks import check_fair_tables, is_table
    from runs.own_data.table_outputs import settings_of, write_fair_clusters

    for columns in check_fair_tables(configs):
        columns.say(console.note)
    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    results, failed = session.fair(configs, force=flags.force)

    def fit(config: FairConfig) -> "FairResult":
        fitted, errors = session.fair([config], force=False)
        if errors:
            raise errors[0]
        return fitted[0]

    written = [
        write_fair_clusters(result, session.store, settings_of(result.config, configs, flags.settings), fit)
        if is_table(result.config)
        else None
        for result in results
    ]
    by_points = {
        points: [result for result in results if _points(result.config) == points]
        for points in dict.fromkeys(_points(result.config) for result in results)
    }
    figures = {points: _figure(points, results_of_points, session) for points, results_of_points in by_points.items()}
    if console.as_json:
        pairs = zip(results, written, strict=True)
        console.json([_record(result, figures[_points(result.config)], files) for result, files in pairs])
    else:
        for results_of_points in by_points.values():
            show(results_of_points, session.varying, console)
    for files in filter(None, written):
        console.note(f"rows with their clusters: {files.rows}")
        console.note(f"fairness of the clusters: {files.page.resolve().as_uri()}")
    for figure in figures.values():
        console.note(f"picture: {figure.files[0].with_suffix('')}.pdf, .svg and .png")
    if results:
        session.close()
    if failed:
        raise failed[0]
    return 0


def show(results: "Sequence[FairResult]", varying: Any, console: Console) -> None:
    """Print the trade-offs on one data set as a table."""
    from runs.tables.trade_off import footnote, rows, title

    shown = rows(results, varying)
    right = [name for name in dict.fromkeys(name for row in shown for name in row) if "\n" in name]
    console.table(shown, title=title(results), right=right)
    if marks := footnote(results):
        console.write(marks)


def _figure(points: str, results: "Sequence[FairResult]", session: "Session") -> "LoggedFigure":
    """Return the figure of all results on a data set, drawn or read from the record."""
    from runs.figures.logged import logged_figure
    from runs.figures.trade_off import DRAWING

    shown = hashlib.sha256(" ".join(result.key for result in results).encode()).hexdigest()[:6]
    name, places = f"fair/{short_name(results[0].config.dataset.name)}", (session.store, session.tracker)
    files = f"fair/{short_name(Path(points).stem)}-{shown}"  # figures of other results are not overwritten
    return logged_figure(name, DRAWING, results, *places, say=session.console.note, files_as=files)


def _points(config: FairConfig) -> str:
    """Return the name of the points: the data set, or the file of a user's own table."""
    from runs.own_data.table_checks import is_table

    return str(config.dataset.options["path"]) if is_table(config) else config.dataset.name


def _record(result: "FairResult", figure: "LoggedFigure", files: "Written | None") -> dict[str, Any]:
    """Return a result as a dictionary for JSON."""
    trade_off = result.found
    finite = [
        {name: value for name, value in trade_off.metrics(step).items() if math.isfinite(value)}
        for step in range(len(trade_off.weights))
    ]
    return {
        "config": result.config.as_json(),
        "weights": finite,
        "best": trade_off.fairest,
        "groups": dict(zip(trade_off.group_names.tolist(), trade_off.group_sizes.tolist(), strict=True)),
        "target": trade_off.target.tolist(),
        "data_balance": trade_off.data_balance,
        "objective": result.kind,
        "n_clusters": result.n_clusters,
        "points": result.shape[0],
        "key": result.key,
        "run": result.run_id,
        "picture": str(figure.files[0]),
        "reused": result.reused,
        **({} if files is None else files.record()),
    }
