"""`transduce evaluate`: evaluate strategies on few-shot tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runs.cli.flags import Flags
from runs.config.configs import EvaluateConfig, parse
from runs.config.overrides import spell
from runs.console.output import Console
from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.stages.results import Result, Tuned

FLAGS = ("dry-run", "force", "json")
ABOUT = """\
Evaluate strategies on few-shot tasks drawn from the novel classes of a benchmark, and show the mean accuracy with its
95 % interval over tasks. Every strategy gets the same tasks. If no checkpoint matches, the backbone is trained first;
checkpoint=FILE takes the weights from a file instead, and pretrained=true takes timm's weights for a timm network.
Features are extracted once; features=FILE takes them from a file instead. Finished evaluations are reused."""
EXAMPLES = (
    "",
    "shot=1,5 strategy=simpleshot,laplacianshot",
    "benchmark=omniglot root=FOLDER backbone=conv4 shot=1,5",
    "strategy=laplacianshot weight=0.1,0.3,1 split=validation",
    "strategy=laplacianshot,slk_ms shot=1,5 tuning=papers",
    "benchmark=mini root=FOLDER checkpoint=model_best.pth.tar shot=1,5",
    "benchmark=mini root=FOLDER backbone=timm:resnet50 pretrained=true",
    "features=output.plk strategy=simpleshot,laplacianshot shot=1,5",
    "strategy=laplacianshot_as_published --dry-run",
    "strategy=laplacianshot --help            (the fields of that strategy)",
    "strategy=mypackage.mymodule:MyStrategy   (a strategy of your own)",
)


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    return write_usage("evaluate", ABOUT, EvaluateConfig, FLAGS, EXAMPLES, settings)


def run(flags: Flags, console: Console) -> int:
    """Run the evaluations of the settings, and show them as a table."""
    from runs.cli.session import Session

    configs = parse(EvaluateConfig, flags.settings)
    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    results = session.evaluation(configs, force=flags.force)
    if console.as_json:
        console.json(
            [
                {
                    "config": result.settled.as_json(),
                    **_tuning(result.tuned),
                    **result.metrics(),
                    "interval": f"over {result.units}",
                    "tasks": len(result.accuracies),
                    "key": result.key,
                    "run": result.run_id,
                    "reused": result.reused,
                }
                for result in results
            ]
        )
    else:
        console.table(
            [
                {
                    "strategy": short(result.config.strategy),
                    **session.varying(result.config, leave_out=("strategy",)),
                    **({} if result.tuned is None else {"tuned": spell(result.tuned.values)}),
                    **_scores(result),
                    "ms/task": f"{1000 * result.seconds_per_task:.3g}",
                    "": "reused" if result.reused else "new",
                }
                for result in results
            ],
            title=_title(results),
            right=("accuracy", "per class", *map(_audited, configs[0].audit), "ms/task"),
        )
    session.close()
    return 0


def _scores(result: "Result") -> dict[str, str]:
    """Return the scores in percent; for a single task, with the mean over classes (Table 4.3, "Per Class")."""
    scores = {"accuracy": f"{100 * result.accuracy:.2f} ± {100 * result.ci95:.2f} %"}
    if result.units == "queries":
        scores["per class"] = f"{100 * result.classes.mean:.2f} ± {100 * result.classes.half_width:.2f} %"
    return scores | {_audited(name): f"{100 * values.mean():.2f} %" for name, values in result.audits.items()}


def _audited(name: str) -> str:
    """Return the heading of an audit's column."""
    return f"audit: {name.replace('_', ' ')}"


def _tuning(tuned: "Tuned | None") -> dict[str, Any]:
    """Return the tuning run and the chosen values, for JSON; empty without tuning."""
    if tuned is None:
        return {}
    return {"tuning": {"key": tuned.key, "run": tuned.run_id, "chosen": dict(tuned.values)}}


def _title(results: "Sequence[Result]") -> str:
    from runs.stages.results import in_common

    units = sorted({result.units for result in results}, reverse=True)
    return f"{in_common(results)}, 95 % interval over {' or '.join(units)}"
