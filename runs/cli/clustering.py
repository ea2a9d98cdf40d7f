"""The verbs that cluster: cluster and fair."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runs.cli.app import DryRun, Force, Json, Settings, app, console, examples, takes
from runs.config.configs import ClusterConfig, FairConfig, parse
from runs.console.output import Console

if TYPE_CHECKING:
    from runs.cli.session import Session
    from runs.figures.logged import LoggedFigure
    from runs.own_data.page import Written
    from runs.stages.fair.results import FairResult


@app.command(
    cls=takes(ClusterConfig),
    epilog=examples(
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
    ),
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
    from runs.own_data.table_checks import check_tables, is_table
    from runs.own_data.table_outputs import settings_of, write_clusters
    from runs.tables import clustered

    said = console(as_json=json)
    for columns in check_tables(configs):
        columns.say(said.note)
    for config in filter(is_folder, configs):
        check_clusters_file(config)
    session = Session(configs, said)
    if dry_run:
        return session.show_plan()
    results = session.clustering(configs, force=force)
    written = [
        write_clusters(result, session.store, settings_of(result.config, configs, settings or []))
        if is_table(result.config)
        else None
        for result in results
    ]
    if json:
        said.json([clustered.as_json(result, files) for result, files in zip(results, written, strict=True)])
    else:
        for name in dict.fromkeys(result.config.dataset.name for result in results):
            same = [result for result in results if result.config.dataset.name == name]
            rows = clustered.rows(same, session.varying)
            right = [name for name in dict.fromkeys(name for row in rows for name in row) if "\n" in name]
            said.table(rows, title=clustered.title(same), right=[*right, "n_init"])
    for result in filter(lambda result: is_folder(result.config), results):
        said.note(f"pictures with their clusters: {write_clusters_file(result, session.store)}")
    _say_files(written, "description", said)
    return session.close()


@app.command(
    cls=takes(FairConfig),
    epilog=examples(
        "fair",
        "",
        "dataset=table path=people.csv sensitive=sex n_clusters=3     (a table of your own)",
        "dataset=adult root=FOLDER method=fair_kmeans,fair_lloyd fairness_weight=0,10,100 n_clusters=10",
        "dataset=adult root=FOLDER sensitive=race 'target=[0.2, 0.2, 0.2, 0.2, 0.2]'",
        "method=fair_kmedian,backurs,bera kind=kmedian delta=0.1,0.2 seed=0,1,2",
        "method=fair_ncut --help             (the parameters of that method)",
    ),
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
    from runs.own_data.table_checks import check_fair_tables, is_table
    from runs.own_data.table_outputs import settings_of, write_fair_clusters
    from runs.tables import trade_off

    said = console(as_json=json)
    for columns in check_fair_tables(configs):
        columns.say(said.note)
    session = Session(configs, said)
    if dry_run:
        return session.show_plan()
    results, failed = session.fair(configs, force=force)

    def fit(config: FairConfig) -> "FairResult":
        fitted, errors = session.fair([config], force=False)
        if errors:
            raise errors[0]
        return fitted[0]

    written = [
        write_fair_clusters(result, session.store, settings_of(result.config, configs, settings or []), fit)
        if is_table(result.config)
        else None
        for result in results
    ]
    by_points: dict[str, list[FairResult]] = {}
    for result in results:
        by_points.setdefault(_points(result.config), []).append(result)
    figures = {points: _figure(points, same, session) for points, same in by_points.items()}
    if json:
        pairs = zip(results, written, strict=True)
        said.json([trade_off.as_json(result, figures[_points(result.config)], files) for result, files in pairs])
    else:
        for same in by_points.values():
            rows = trade_off.rows(same, session.varying)
            right = [name for name in dict.fromkeys(name for row in rows for name in row) if "\n" in name]
            said.table(rows, title=trade_off.title(same), right=right)
            if marks := trade_off.footnote(same):
                said.write(marks)
    _say_files(written, "fairness", said)
    for figure in figures.values():
        said.note(f"picture: {figure.files[0].with_suffix('')}.pdf, .svg and .png")
    if results:
        session.close()
    if failed:
        raise failed[0]
    return 0


def _say_files(written: "Sequence[Written | None]", what: str, said: Console) -> None:
    for files in filter(None, written):
        said.note(f"rows with their clusters: {files.rows}")
        said.note(f"{what} of the clusters: {files.page.resolve().as_uri()}")


def _figure(points: str, results: "Sequence[FairResult]", session: "Session") -> "LoggedFigure":
    """Return the figure of all results on a data set, drawn or read from the record."""
    from runs.figures.logged import logged_figure
    from runs.figures.trade_off import DRAWING
    from runs.stages.lineage import short_name

    shown = hashlib.sha256(" ".join(result.key for result in results).encode()).hexdigest()[:6]
    name, places = f"fair/{short_name(results[0].config.dataset.name)}", (session.store, session.tracker)
    files = f"fair/{short_name(Path(points).stem)}-{shown}"  # figures of other results are not overwritten
    return logged_figure(name, DRAWING, results, *places, say=session.console.note, files_as=files)


def _points(config: FairConfig) -> str:
    """Return the name of the points: the data set, or the file of a user's own table."""
    from runs.own_data.table_checks import is_table

    return str(config.dataset.options["path"]) if is_table(config) else config.dataset.name
