"""`transduce cluster`: methods on data sets, judged in three ways."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from runs.cli.flags import Flags
from runs.config.configs import ClusterConfig, parse
from runs.console.output import Console
from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.own_data.table_outputs import Written
    from runs.stages.clustering.results import Clustered

FLAGS = ("dry-run", "force", "json")
ABOUT = """\
Cluster a data set. Each method is shown in three ways, side by side: the trial that labels of a tenth of the points
select among 40 (seeds and settings, as in the papers; scored on the other points), the one of ten starts that the
method itself finds best, without labels, and mean and standard deviation of these ten. n_init says of
how many starts each of these is itself the best; n_init=48 gives every method as many. Three times: of the neighbour
graph, of first prototypes, of the rest (of methods that do not tell: of all). A finished clustering is used again.
With network= the method trains a network on pictures (or rows), one a run: an interrupted training goes on when the
same command is given again, and what the network learned is kept to be clustered in turn. With labels= the classes of
some points are given to the method, and it is judged on the others."""
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
    """The help of this verb."""
    from runs.cli.usage import usage as write_usage

    return write_usage("cluster", ABOUT, ClusterConfig, FLAGS, EXAMPLES, settings)


def run(flags: Flags, console: Console) -> int:
    """Cluster what the settings ask for, and show it as a table."""
    configs = parse(ClusterConfig, flags.settings)
    from runs.cli.session import Session
    from runs.own_data.clustered_pictures import check_pictures, is_folder, write_pictures
    from runs.own_data.own_table import check_tables, write_outputs
    from runs.own_data.table_outputs import is_table, typed

    for columns in check_tables(configs):
        columns.say(console.note)
    for config in filter(is_folder, configs):
        check_pictures(config)
    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    results = session.clustering(configs, force=flags.force)
    written = [
        write_outputs(result, session.store, typed(result.config, configs, flags.settings))
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
            console.note(f"pictures with their clusters: {write_pictures(result, session.store)}")
    for files in filter(None, written):
        console.note(f"rows with their clusters: {files.rows}")
        console.note(f"what the clusters are like: {files.page.resolve().as_uri()}")
    session.close()
    return 0


def show(results: "Sequence[Clustered]", varying: Any, console: Console) -> None:
    """The results on one data set as a table."""
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
    """Of each fit, of which the fit chooses one by itself; of a method that says it."""
    starts = result.config.method.options.get("n_init")
    return {} if starts is None else {"n_init": str(starts)}


def _judgement(result: "Clustered") -> dict[str, str]:
    """The three columns, NMI by the geometric mean and accuracy of the best match; without classes what was lowered."""
    found = result.trials.metrics()
    if "nmi" not in found:
        return {
            "objective\nlowest": _spread(found["objective"], math.nan, ".6g"),
            "\nmean": _spread(found["objective_mean"], found["objective_std"], ".6g"),
            "clusters\nfound": f"{found['clusters_found']:.0f}",
        }
    selected = {}
    if "accuracy" in found:
        spread = _spread(found["accuracy_mean"], found["accuracy_std"])
        selected = {"accuracy\nof unlabelled": spread}
    if "nmi_label_selected" in found:
        both = f"{found['nmi_label_selected']:.3f} {found['acc_hungarian_label_selected']:.3f}"
        selected = {"NMI ACC\nselected by labels": both}
    return selected | {
        "NMI ACC\nunsupervised": f"{found['nmi']:.3f} {found['acc_hungarian']:.3f}",
        "NMI\nover starts": _spread(found["nmi_mean"], found["nmi_std"]),
        "ACC\nover starts": _spread(found["acc_hungarian_mean"], found["acc_hungarian_std"]),
    }


def _spread(mean: float, deviation: float, form: str = ".3f") -> str:
    if math.isnan(mean):
        return ""
    return f"{mean:{form}}" if math.isnan(deviation) else f"{mean:{form}} ± {deviation:{form}}"


def _seconds(result: "Clustered") -> dict[str, str]:
    """Of one start, on average."""
    found = result.trials.metrics()
    times = {"s\ngraph": "seconds_graph", "s\nseeding": "seconds_seeding", "s\noptimise": "seconds_optimise"}
    return {name: "" if math.isnan(found[key]) else f"{found[key]:.3g}" for name, key in times.items()}


def _title(results: "Sequence[Clustered]") -> str:
    first = results[0]
    points, dimensions = (_all(result.shape[axis] for result in results) for axis in (0, 1))
    clusters = _all(result.n_clusters for result in results)
    parts = [f"{first.config.dataset.name}: {points} points of {dimensions} values, {clusters} clusters"]
    tried = {int(result.trials.tried.sum()) for result in results} - {0}
    if tried:
        count = " or ".join(str(number) for number in sorted(tried))
        trials = "trial" if tried == {1} else "trials"
        parts.append(f"selected by labels: best of {count} {trials} by labels that a user of clustering would not have")
    parts.append(f"starts: {' or '.join(str(n) for n in sorted({int(r.trials.given.sum()) for r in results}))}")
    return "; ".join(parts)


def _all(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number:,}" for number in dict.fromkeys(numbers))


def _record(result: "Clustered", files: "Written | None") -> dict[str, Any]:
    """A result, for JSON."""
    found = {name: value for name, value in result.trials.metrics().items() if math.isfinite(value)}
    selected = result.trials.selected
    return {
        "config": result.config.as_json(),
        **found,
        "selected": None if selected is None else dict(result.trials.settings[result.trials.setting[selected]]),
        "n_clusters": result.n_clusters,
        "points": result.shape[0],
        "identity": result.identity,
        "run": result.run_id,
        "reused": result.reused,
        **({} if files is None else files.record()),
    }
