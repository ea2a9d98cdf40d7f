"""The verbs that cluster: cluster and fair."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs.cli.app import DryRun, Force, Json, Settings, verb
from runs.config.configs import ClusterConfig, FairConfig, parse

if TYPE_CHECKING:
    from runs.cli.session import Session
    from runs.figures.logged import LoggedFigure
    from runs.stages.fair.results import FairResult


@verb(
    "cluster",
    "",
    "dataset=table path=people.csv columns=age,income n_clusters=3     (a table of your own)",
    "dataset=usps root=FOLDER method=kmeans,slk_mean_shift,slk_byproduct normalize=l2",
    "method=slk_mean_shift weight=0.25,0.5,1 selection=null",
    "method=sklearn.cluster:HDBSCAN min_cluster_size=20",
    "dataset=folder root=FOLDER method=entropy labels=labels.csv       (pictures of your own, some labelled)",
    "dataset=mnist root=FOLDER method=entropy,sela network=small_cnn labels=0,50 seed=0,1,2",
    "method=slk_mean_shift --help             (the parameters of that method)",
    "dataset=mypackage.mymodule:MyPoints method=mypackage.mymodule:MyMethod",
    schema=ClusterConfig,
)
def cluster(settings: Settings = None, dry_run: DryRun = False, force: Force = False, json: Json = False) -> int:
    """Cluster a dataset or your own table, and compare methods.

    Each method is scored in three columns. Selected by labels: the best of 40 trials (seeds and settings, as in the
    papers), selected by the labels of a tenth of the points and scored on the others. Unsupervised: the best of ten
    starts by the method's own objective. Over starts: mean and standard deviation over these.

    n_init is the number of initialisations of each start, of which the method keeps the best. With network=, the method
    trains one network per run; the same command resumes it. With labels=, the method is given the classes of some
    points, and is scored on the others. Finished clusterings are reused.
    """
    configs = parse(ClusterConfig, settings or [])
    from runs.cli.session import Session
    from runs.own_data.picture_outputs import check_clusters_file, is_folder, write_clusters_file
    from runs.own_data.table_checks import check_tables
    from runs.own_data.table_outputs import write_clusters
    from runs.tables import clustered

    columns = check_tables(configs)
    for config in filter(is_folder, configs):
        check_clusters_file(config)
    session = Session(configs, as_json=json)
    for own in columns:
        own.say(session.console.note)
    if dry_run:
        return session.show_plan()
    results = session.run(force=force)
    written = _written(session, results, settings, write_clusters)
    if json:
        session.console.json([clustered.as_json(result, written.get(result.key)) for result in results])
    else:
        _show(session, results, clustered, ["n_init"])
    for result in (result for result in results if is_folder(result.config)):
        session.console.note(f"pictures with their clusters: {write_clusters_file(result, session.store)}")
    _say(session, written, "description")
    return session.close()


@verb(
    "fair",
    "",
    "dataset=table path=people.csv sensitive=sex n_clusters=3     (a table of your own)",
    "dataset=adult root=FOLDER method=fair_kmeans,fair_lloyd fairness_weight=0,10,100 n_clusters=10",
    "dataset=adult root=FOLDER sensitive=race 'target=[0.2, 0.2, 0.2, 0.2, 0.2]'",
    "method=fair_kmedian,backurs,bera kind=kmedian delta=0.1,0.2 seed=0,1,2",
    "method=fair_ncut --help             (the parameters of that method)",
    schema=FairConfig,
)
def fair(settings: Settings = None, dry_run: DryRun = False, force: Force = False, json: Json = False) -> int:
    """Cluster with balanced groups, and show the price of fairness.

    Points that belong to groups, such as people, are clustered so that each cluster has the groups in their proportions
    in the data. A fairness weight sets how closely; all weights are one run, each starts from the solution of the
    previous one. The table shows for each weight the objective, its price relative to the unfair solution, the fairness
    error (sum over clusters of KL(target || proportions)), the minimum and mean balance of the clusters, and groups
    missing from a cluster. A star marks the smallest weight with the least error. Finished paths are reused.
    """
    configs = parse(FairConfig, settings or [])
    from runs.cli.session import Session
    from runs.own_data.table_checks import check_fair_tables
    from runs.own_data.table_outputs import write_fair_clusters
    from runs.tables import trade_off

    columns = check_fair_tables(configs)
    session = Session(configs, as_json=json)
    for own in columns:
        own.say(session.console.note)
    if dry_run:
        return session.show_plan()
    results = session.run(force=force)

    def fit(config: FairConfig) -> "FairResult":
        (fitted,) = Session([config]).run()
        found: FairResult = fitted
        return found

    written = _written(session, results, settings, partial(write_fair_clusters, fit=fit))
    figures = {place: _figure(place, same, session) for place, same in _by_points(results).items()}
    if json:
        about = [(result, figures[_points(result.config)], written.get(result.key)) for result in results]
        session.console.json([trade_off.as_json(*one) for one in about])
    else:
        _show(session, results, trade_off)
    _say(session, written, "fairness")
    for figure in figures.values():
        session.console.note(f"picture: {figure.files[0].with_suffix('')}.pdf, .svg and .png")
    return session.close()


def _written(
    session: "Session", results: Sequence[Any], settings: Sequence[str] | None, write: Callable[..., Any]
) -> dict[str, Any]:
    """Write the rows and the page of each table of a user, and return them by the key of the result."""
    from runs.own_data.table_checks import is_table
    from runs.own_data.table_outputs import settings_of

    own = [result for result in results if is_table(result.config)]
    configs: Any = session.configs
    return {one.key: write(one, session.store, settings_of(one.config, configs, settings or [])) for one in own}


def _show(session: "Session", results: Sequence[Any], table: Any, right: Sequence[str] = ()) -> None:
    """Print a table for each data set."""
    for same in _by_points(results).values():
        rows = table.rows(same, session.varying)
        numbers = [name for name in dict.fromkeys(name for row in rows for name in row) if "\n" in name]
        session.console.table(rows, title=table.title(same), right=[*numbers, *right])
        if marks := getattr(table, "footnote", lambda same: "")(same):
            session.console.write(marks)


def _say(session: "Session", written: dict[str, Any], what: str) -> None:
    for files in written.values():
        session.console.note(f"rows with their clusters: {files.rows}")
        session.console.note(f"{what} of the clusters: {files.page.resolve().as_uri()}")


def _figure(points: str, results: "Sequence[FairResult]", session: "Session") -> "LoggedFigure":
    """Return the figure of all results on a data set, drawn or read from the record."""
    from runs.figures.logged import logged_figure
    from runs.figures.trade_off import DRAWING
    from runs.stages.lineage import short_name

    shown = hashlib.sha256(" ".join(result.key for result in results).encode()).hexdigest()[:6]
    name, places = f"fair/{short_name(results[0].config.dataset.name)}", (session.store, session.tracker)
    files = f"fair/{short_name(Path(points).stem)}-{shown}"  # figures of other results are not overwritten
    return logged_figure(name, DRAWING, results, *places, say=session.console.note, files_as=files)


def _by_points(results: Sequence[Any]) -> dict[str, list[Any]]:
    by_points: dict[str, list[Any]] = {}
    for result in results:
        by_points.setdefault(_points(result.config), []).append(result)
    return by_points


def _points(config: ClusterConfig | FairConfig) -> str:
    """Return the name of the points: the data set, or the file of a user's own table."""
    from runs.own_data.table_checks import is_table

    return str(config.dataset.options["path"]) if is_table(config) else config.dataset.name
