"""`transduce fair`: fair clustering along weights, and what fairness costs."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runs.cli.flags import Flags
from runs.config import FairConfig, parse
from runs.console import Console
from runs.lineage import short

if TYPE_CHECKING:
    from runs.fair_results import FairResult
    from runs.table_outputs import Written

FLAGS = ("dry-run", "force", "json")
ABOUT = """\
Cluster people, or other things that belong to groups, so that every cluster has the groups in the proportions that they
have in the data, as nearly as a weight asks for. All weights are one run: each begins where the one before it ended.
Shown at each: the objective, its price over the unfair solution, the fairness error (sum over clusters of
KL(target || proportions)), the least and mean balance of a cluster, and groups that a cluster lacks. The star is at the
smallest weight that reaches the least error. A finished path is used again."""
EXAMPLES = (
    "",
    "dataset=table path=people.csv sensitive=sex n_clusters=3     (a table of your own)",
    "dataset=adult root=FOLDER method=fair_kmeans,fair_lloyd fairness_weight=0,10,100 n_clusters=10",
    "dataset=adult root=FOLDER sensitive=race target=[0.2, 0.2, 0.2, 0.2, 0.2]",
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
    from runs.own_fair_table import check_fair_tables, write_fair_outputs
    from runs.table_outputs import is_table, typed

    check_fair_tables(configs)
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
    if console.as_json:
        console.json([_record(result, files) for result, files in zip(results, written, strict=True)])
    else:
        for name in dict.fromkeys(result.config.dataset.name for result in results):
            show([result for result in results if result.config.dataset.name == name], session.varying, console)
    for files in filter(None, written):
        console.note(f"rows with their clusters: {files.rows}")
        console.note(f"how fair the clusters are: {files.page.resolve().as_uri()}")
    if failed:
        raise failed[0]
    session.close()
    return 0


def show(results: "Sequence[FairResult]", varying: Any, console: Console) -> None:
    """The trade-offs on one data set as a table."""
    rows = []
    for result in results:
        others = varying(result.config, leave_out=("method", "dataset"))
        for step in range(len(result.found.weights)):
            rows.append({"method": short(result.config.method), **others, **_point(result, step)})
    right = [name for name in dict.fromkeys(name for row in rows for name in row) if "\n" in name]
    console.table(rows, title=_title(results), right=right)


def _point(result: "FairResult", step: int) -> dict[str, str]:
    """One weight in the table."""
    found = result.found
    chosen = "*" if step == found.chosen and len(found.weights) > 1 else ""
    lost = result.n_clusters - int(found.clusters[step])
    return {
        "\nweight": _number(found.weights[step], ".4g"),
        "\n\u2009": chosen,
        "\nobjective": _number(found.objective[step], ".6g"),
        "\nprice": _number(found.price[step], ".3f"),
        "fairness\nerror": _number(found.fairness_error[step], ".4f"),
        "balance\nleast": _number(found.balance_min[step], ".3f"),
        "\nmean": _number(found.balance_mean[step], ".3f"),
        "lost\nclusters": str(lost) if lost else "",
        "absent\ngroups": str(found.absent[step]) if found.absent[step] else "",
        "con-\nverged": "yes" if found.converged[step] else "no",
        "\ns": _number(found.seconds[step], ".3g"),
        "": "reused" if result.reused else "new",
    }


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else f"{value:{form}}"


def _title(results: "Sequence[FairResult]") -> str:
    first = results[0]
    found = first.found
    sizes = found.group_sizes
    names = ", ".join(f"{name} {count:,}" for name, count in zip(found.group_names, sizes, strict=True))
    clusters = ", ".join(str(number) for number in dict.fromkeys(result.n_clusters for result in results))
    points, dimensions = first.shape
    return (
        f"{first.config.dataset.name}: {points:,} points of {dimensions} values, {clusters} clusters; groups: {names}; "
        f"balance of the data {found.data_balance:.3f}"
    )


def _record(result: "FairResult", files: "Written | None") -> dict[str, Any]:
    """A result, for JSON."""
    found = result.found
    finite = [
        {name: value for name, value in found.metrics(step).items() if math.isfinite(value)}
        for step in range(len(found.weights))
    ]
    return {
        "config": result.config.flat(),
        "weights": finite,
        "best": found.chosen,
        "groups": dict(zip(found.group_names.tolist(), found.group_sizes.tolist(), strict=True)),
        "target": found.target.tolist(),
        "data_balance": found.data_balance,
        "objective": result.kind,
        "n_clusters": result.n_clusters,
        "points": result.shape[0],
        "identity": result.identity,
        "run": result.run_id,
        "reused": result.reused,
        **({} if files is None else {"rows": str(files.rows), "page": str(files.page)}),
    }
