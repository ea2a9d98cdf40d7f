"""The verbs that cluster: cluster and fair."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs.cli.app import console
from runs.cli.session import Session, run_verb
from runs.config.configs import ClusterConfig, FairConfig, RunConfig, parse

if TYPE_CHECKING:
    from runs.own_data.page import Written
    from runs.stages.clustering.results import Clustered
    from runs.stages.fair.results import FairResult


def _configs(schema: type[RunConfig], settings: Sequence[str]) -> list[Any]:
    """Read the settings, and check the tables and pictures of a user before anything is clustered."""
    configs: list[Any] = parse(schema, settings)
    from runs.own_data.tables import check_own_data

    said = console()
    check_own_data(configs, lambda line: (said.error if line.startswith("warning") else said.note)(line))
    return configs


@run_verb("cluster", ClusterConfig, partial(_configs, ClusterConfig))
def cluster(session: Session, results: "list[Clustered]") -> None:
    """Cluster a dataset or your own table, and compare methods.

    Each method is scored in three columns. Selected by labels: the best of 40 trials (seeds and settings, as in the
    papers), selected by the labels of a tenth of the points and scored on the others. Unsupervised: the best of ten
    starts by the method's own objective. Over starts: mean and standard deviation over these. With network=, the method
    trains one network per run; the same command resumes it. Finished clusterings are reused.

    Examples:
      transduce cluster
      transduce cluster dataset=table path=people.csv columns=age,income n_clusters=3     (a table of your own)
      transduce cluster dataset=folder root=FOLDER n_clusters=auto     (own pictures, by the features of a network)
      transduce cluster dataset=features path=embeddings.npy n_clusters=10 normalize=l2
      transduce cluster dataset=mnist root=FOLDER method=entropy,sela network=small_cnn labels=0,50 seed=0,1,2
      transduce cluster dataset=table path=people.csv n_clusters=auto     (finds their number, and shows the curve)
      transduce cluster method=slk_mean_shift --help             (the parameters of that method)
      transduce cluster dataset=mymodule:MyPoints method=sklearn.cluster:HDBSCAN min_cluster_size=20
    """
    from runs.own_data.clusters_page import write_clusters, write_feature_clusters, write_picture_clusters
    from runs.tables import clustered

    writers = {"table": write_clusters, "folder": write_picture_clusters, "features": write_feature_clusters}
    written = _written(session, results, writers)
    for same in _by_points(results).values():
        _show(session, clustered.title(same), clustered.rows(same, session.varying), "n_init")
    for note in clustered.found_numbers(results):
        session.console.note(note)
    facts = [clustered.as_json(result, written.get(result.key)) for result in results]
    _close(session, facts, written, "description")


@run_verb("fair", FairConfig, partial(_configs, FairConfig))
def fair(session: Session, results: "list[FairResult]") -> None:
    """Cluster with balanced groups, and show the price of fairness.

    Points that belong to groups, such as people, are clustered so that each cluster has the groups in their proportions
    in the data. A fairness weight sets how closely; all weights are one run, each starts from the solution of the
    previous one. The table shows for each weight the objective, its price relative to the unfair solution, the fairness
    error (sum over clusters of KL(target || proportions)), the minimum and mean balance of the clusters, and groups
    missing from a cluster. A star marks the smallest weight with the least error. Finished paths are reused.

    Examples:
      transduce fair dataset=table path=people.csv sensitive=sex n_clusters=3     (a table of your own)
      transduce fair dataset=adult root=FOLDER method=fair_kmeans,fair_lloyd fairness_weight=0,10,100 n_clusters=10
      transduce fair dataset=adult root=FOLDER sensitive=race 'target=[0.2, 0.2, 0.2, 0.2, 0.2]'
      transduce fair method=fair_ncut --help             (the parameters of that method)
    """
    from runs.figures.fair import cost_of_fairness
    from runs.figures.logged import logged_figure
    from runs.own_data.fairness_page import write_fair_clusters
    from runs.stages.lineage import short_name
    from runs.tables import trade_off

    written, facts, pictures, said = _written(session, results, {"table": write_fair_clusters}), [], [], session.console
    for points, same in _by_points(results).items():
        shown = hashlib.sha256(" ".join(result.key for result in same).encode()).hexdigest()[:6]
        name = f"fair/{short_name(same[0].config.dataset.name)}"
        files = f"fair/{short_name(Path(points).stem)}-{shown}"  # figures of other results are not overwritten
        record = session.store, session.tracker
        figure = logged_figure(name, *cost_of_fairness(same), same, *record, say=said.note, files_as=files)
        pictures.append(f"picture: {figure.files[0].with_suffix('')}.pdf, .svg and .png")
        facts += [trade_off.as_json(result, figure, written.get(result.key)) for result in same]
        _show(session, trade_off.title(same), trade_off.rows(same, session.varying))
        if not said.as_json and (marks := trade_off.footnote(same)):
            said.write(marks)
    _close(session, facts, written, "fairness", *pictures)


def _written(
    session: Session, results: Sequence[Any], writers: Mapping[str, Callable[..., "Written"]]
) -> dict[str, "Written"]:
    """Write the rows and the page of each result on a user's own data, and return them by its key. The writers are
    named by kind of data set."""
    from runs.own_data.page import command_line

    written = {}
    for result in results:
        if write := writers.get(result.config.dataset.plugin):
            settings = session.settings if len(session.configs) == 1 else result.config.arguments()
            kind = "cluster" if isinstance(result.config, ClusterConfig) else "fair"
            written[result.key] = write(result, session.store, command_line(kind, settings))
    return written


def _show(session: Session, title: str, rows: Sequence[dict[str, str]], *right: str) -> None:
    numbers = [name for name in dict.fromkeys(name for row in rows for name in row) if "\n" in name]
    if not session.console.as_json:
        session.console.table(rows, title=title, right=[*numbers, *right])


def _close(session: Session, facts: Any, written: "dict[str, Written]", what: str, *notes: str) -> None:
    """Print the facts as JSON, and the files that were written."""
    if session.console.as_json:
        session.console.json(facts)
    for files in written.values():
        session.console.note(f"rows with their clusters: {files.rows}")
        session.console.note(f"{what} of the clusters: {files.page.resolve().as_uri()}")
    for note in notes:
        session.console.note(note)


def _by_points(results: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the results on each data set, or file of a user's own table."""
    from runs.own_data.tables import is_table

    by_points: dict[str, list[Any]] = {}
    for result in results:
        dataset = result.config.dataset
        by_points.setdefault(dataset.options["path"] if is_table(result.config) else dataset.name, []).append(result)
    return by_points
