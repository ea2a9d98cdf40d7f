"""`transduce cluster`: cluster data sets, and score each method under three protocols."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from runs.cli.flags import Flags
from runs.config.configs import ClusterConfig, parse
from runs.console.output import Console
from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.own_data.page import Written
    from runs.stages.clustering.results import Clustered

FLAGS = ("dry-run", "force", "json")
ABOUT = """\
Cluster a data set, and score each method in three columns:
  selected by labels   the best of 40 trials (seeds and settings, as in the papers), selected by the labels of a tenth
                       of the points and scored on the others
  unsupervised         the best of ten starts by the method's own objective, without labels
  over starts          mean and standard deviation over these ten starts
n_init is the number of initialisations of each start, of which the method keeps the best; n_init=48 sets it for every
method. The times are those of the neighbour graph, of the initial prototypes and of the optimisation; a method that
does not report them separately shows its total. Finished clusterings are reused.
With network=, the method trains one network per run on pictures or rows. Rerun the same command to resume an
interrupted training. The learned features are kept, and can be clustered in turn. With labels=, the method is given the
classes of some points, and is scored on the others."""
EXAMPLES = (
    "",
    "dataset=table path=people.csv columns=age,income n_clusters=3     (a table of your own)",
    "dataset=usps root=FOLDER method=kmeans,slk_mean_shift,slk_byproduct normalize=l2",
    "dataset=mnist root=FOLDER method=slk_mean_shift_as_published",
    "method=slk_mean_shift weight=0.25,0.5,1 selection=null",
    "method=sklearn.cluster:HDBSCAN min_cluster_size=20",
    "dataset=folder root=FOLDER method=entropy labels=labels.csv       (pictures of your own, some labelled)",
    "dataset=mnist root=FOLDER method=entropy,sela network=small_cnn labels=0,50 seed=0,1,2",
    "dataset=features path=FILE.safetensors method=kmeans,slk_mean_shift normalize=l2",
    "method=slk_mean_shift --help             (the parameters of that method)",
    "dataset=mypackage.mymodule:MyPoints method=mypackage.mymodule:MyMethod",
)


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    return write_usage("cluster", ABOUT, ClusterConfig, FLAGS, EXAMPLES, settings)


def run(flags: Flags, console: Console) -> int:
    """Run the clusterings of the settings, and show them as a table."""
    configs = parse(ClusterConfig, flags.settings)
    from runs.cli.session import Session
    from runs.own_data.picture_outputs import check_clusters_file, is_folder, write_clusters_file
    from runs.own_data.table_checks import check_tables, is_table
    from runs.own_data.table_outputs import settings_of, write_clusters

    for columns in check_tables(configs):
        columns.say(console.note)
    for config in filter(is_folder, configs):
        check_clusters_file(config)
    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    results = session.clustering(configs, force=flags.force)
    written = [
        write_clusters(result, session.store, settings_of(result.config, configs, flags.settings))
        if is_table(result.config)
        else None
        for result in results
    ]
    if console.as_json:
        console.json([_record(result, files) for result, files in zip(results, written, strict=True)])
    else:
        for name in dict.fromkeys(result.config.dataset.name for result in results):
            show([result for result in results if result.config.dataset.name == name], session.varying, console)
    for result in results:
        if is_folder(result.config):
            console.note(f"pictures with their clusters: {write_clusters_file(result, session.store)}")
    for files in filter(None, written):
        console.note(f"rows with their clusters: {files.rows}")
        console.note(f"description of the clusters: {files.page.resolve().as_uri()}")
    session.close()
    return 0


def show(results: "Sequence[Clustered]", varying: Any, console: Console) -> None:
    """Print the results on one data set as a table."""
    rows = [
        {
            "method": short(result.config.method),
            **_starts(result),
            **varying(result.config, leave_out=("method", "dataset", "method.n_init")),
            **_judgement(result),
            **_seconds(result),
            "": "reused" if result.reused else "new",
        }
        for result in results
    ]
    right = [name for name in dict.fromkeys(name for row in rows for name in row) if "\n" in name or name == "n_init"]
    console.table(rows, title=_title(results), right=right)


def _starts(result: "Clustered") -> dict[str, str]:
    """Return the number of initialisations of each fit, for methods with the parameter `n_init`."""
    starts = result.config.method.options.get("n_init")
    return {} if starts is None else {"n_init": str(starts)}


def _judgement(result: "Clustered") -> dict[str, str]:
    """Return the columns of scores: NMI (geometric mean) and accuracy after matching; else the objective."""
    metrics = result.trials.metrics()
    if "nmi" not in metrics:
        return {
            "objective\nlowest": _spread(metrics["objective"], math.nan, ".6g"),
            "\nmean": _spread(metrics["objective_mean"], metrics["objective_std"], ".6g"),
            "clusters\nfound": f"{metrics['clusters_found']:.0f}",
        }
    selected = {}
    if "accuracy" in metrics:
        spread = _spread(metrics["accuracy_mean"], metrics["accuracy_std"])
        selected = {"accuracy\nof unlabelled": spread}
    if "nmi_label_selected" in metrics:
        both = f"{metrics['nmi_label_selected']:.3f} {metrics['acc_hungarian_label_selected']:.3f}"
        selected = {"NMI ACC\nselected by labels": both}
    return selected | {
        "NMI ACC\nunsupervised": f"{metrics['nmi']:.3f} {metrics['acc_hungarian']:.3f}",
        "NMI\nover starts": _spread(metrics["nmi_mean"], metrics["nmi_std"]),
        "ACC\nover starts": _spread(metrics["acc_hungarian_mean"], metrics["acc_hungarian_std"]),
    }


def _spread(mean: float, deviation: float, form: str = ".3f") -> str:
    if math.isnan(mean):
        return ""
    return f"{mean:{form}}" if math.isnan(deviation) else f"{mean:{form}} ± {deviation:{form}}"


def _seconds(result: "Clustered") -> dict[str, str]:
    """Return the mean seconds per start."""
    metrics = result.trials.metrics()
    times = {"s\ngraph": "seconds_graph", "s\nseeding": "seconds_seeding", "s\noptimise": "seconds_optimise"}
    return {name: "" if math.isnan(metrics[key]) else f"{metrics[key]:.3g}" for name, key in times.items()}


def _title(results: "Sequence[Clustered]") -> str:
    first = results[0]
    points, dimensions = (_all(result.shape[axis] for result in results) for axis in (0, 1))
    clusters = _all(result.n_clusters for result in results)
    parts = [f"{first.config.dataset.name}: {points} points of {dimensions} values, {clusters} clusters"]
    tried = {int(result.trials.tried.sum()) for result in results} - {0}
    if tried:
        count = " or ".join(str(number) for number in sorted(tried))
        trials = "trial" if tried == {1} else "trials"
        parts.append(f"selected by labels: best of {count} {trials}, by labels that are unknown in unsupervised use")
    parts.append(f"starts: {' or '.join(str(n) for n in sorted({int(r.trials.given.sum()) for r in results}))}")
    return "; ".join(parts)


def _all(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number:,}" for number in dict.fromkeys(numbers))


def _record(result: "Clustered", files: "Written | None") -> dict[str, Any]:
    """Return a result as a dictionary for JSON."""
    metrics = {name: value for name, value in result.trials.metrics().items() if math.isfinite(value)}
    selected = result.trials.selected
    return {
        "config": result.config.as_json(),
        **metrics,
        "selected": None if selected is None else dict(result.trials.settings[result.trials.setting[selected]]),
        "n_clusters": result.n_clusters,
        "points": result.shape[0],
        "key": result.key,
        "run": result.run_id,
        "reused": result.reused,
        **({} if files is None else files.record()),
    }
