"""`transduce tune`: choose a strategy's parameters without access to the novel classes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags
from runs.config.configs import TuneConfig, parse
from runs.console.output import Console
from runs.stages.lineage import evaluate_name, short

if TYPE_CHECKING:
    from fsl.evaluation.paired import Difference
    from runs.stages.tuning import Tuning
    from runs.stages.tuning_curves import Curve

FLAGS = ("dry-run", "force", "json")
ABOUT = """\
Choose a strategy's parameters on tasks of base and validation classes, separately for each sampler, benchmark, backbone
and seed. All values are tried on the same tasks, and the novel classes cannot be read during tuning. The protocol
`tuning` lists the steps and the values each step tries. Several values of a field, as in temperature=5,15,30, replace
the protocol's values for it; for a strategy that is not in the protocol, they form a step. `transduce evaluate` with
the same keys uses the chosen values."""
EXAMPLES = (
    "strategy=laplacianshot,slk_ms shot=1,5",
    "strategy=laplacianshot novel_tasks=10000     (afterwards, compare the choice with the best on novel classes)",
    "strategy=tim_adm temperature=5,15,30",
    "strategy=laplacianshot tuning=mine.yaml --dry-run",
)


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    return write_usage("tune", ABOUT, TuneConfig, FLAGS, EXAMPLES, settings)


def run(flags: Flags, console: Console) -> int:
    """Run the tunings of the settings, and show the values that were tried."""
    configs = _tunable(parse(TuneConfig, flags.settings), console)
    from runs.cli.session import Session

    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    tunings = [session.tuning(config, force=flags.force) for config in configs]
    if console.as_json:
        console.json([_record(tuning) for tuning in tunings])
    else:
        rows = [
            {
                "strategy": short(tuning.config.strategy),
                **session.varying(tuning.config, leave_out=("strategy",)),
                **_row(tuning, curve),
            }
            for tuning in tunings
            for curve in tuning.curves
        ]
        title = "every value on the same tasks; 95 % intervals over tasks"
        console.table(rows, title=title, right=("tasks", "tried", "accuracy", "gain"))
    for tuning in tunings:
        name = evaluate_name(tuning.config)
        for curve in (curve for curve in tuning.curves if curve.at_the_end):
            console.note(f"{name}: {curve.chosen} is at the boundary of the tried values; extend the range")
        if tuning.novel:
            console.note(_statement(tuning, tuning.novel))
        console.note(f"saved: {tuning.picture}")
    session.close()
    return 0


def _tunable(configs: Sequence[TuneConfig], console: Console) -> list[TuneConfig]:
    """Return the configs of strategies with values to try.

    Raises:
        InputError: no strategy has values to try.
    """
    without = dict.fromkeys(short(config.strategy) for config in configs if not config.strategy.grids)
    if len(without) == len({short(config.strategy) for config in configs}):
        raise InputError(
            f"tuning={configs[0].tuning} has no values for {', '.join(without)}; give values, as in "
            "temperature=5,15,30, or your own protocol, tuning=FILE.yaml"
        )
    for strategy in without:
        console.note(f"nothing to tune for {strategy}; it is skipped")
    return [config for config in configs if config.strategy.grids]


def _row(tuning: "Tuning", curve: "Curve") -> dict[str, str]:
    """Return the row of one tuning step."""
    chosen = curve.chosen
    return {
        "classes": curve.step.split,
        "tasks": f"{curve.step.tasks:,}",
        "tried": f"{len(curve.trials)}",
        "chosen": str(chosen),
        "accuracy": f"{100 * chosen.result.accuracy:.2f} ± {100 * chosen.result.ci95:.2f} %",
        "default": "" if curve.default is None else str(curve.default),
        "gain": "" if curve.gain is None or chosen is curve.default else _points(curve.gain),
        "": "reused" if tuning.reused else "new",
    }


def _points(difference: "Difference") -> str:
    """Return a difference in percentage points with its 95 % interval, marked if the interval contains 0."""
    chance = "" if difference.excludes_zero else ", not significant"
    return f"{100 * difference.mean:+.2f} ({100 * difference.low:+.2f} to {100 * difference.high:+.2f}{chance})"


def _statement(tuning: "Tuning", novel: "Curve") -> str:
    """Return the accuracy of the chosen values on the novel classes, compared with the best values there."""
    chosen, best = novel.chosen, novel.best
    name = f"{evaluate_name(tuning.config)}, {len(chosen.result.accuracies):,} novel tasks"
    result = f"{chosen} (chosen): {100 * chosen.result.accuracy:.2f} ± {100 * chosen.result.ci95:.2f} %"
    if best is chosen:
        return f"{name}: {result}, the best of {len(novel.trials)}"
    return f"{name}: {result}; the best, {best}: {_points(novel.lost)}"


def _record(tuning: "Tuning") -> dict[str, Any]:
    """Return a tuning as a dictionary for JSON."""
    return {
        "config": tuning.config.as_json(),
        "key": tuning.tuned.key,
        "run": tuning.tuned.run_id,
        "reused": tuning.reused,
        "chosen": dict(tuning.tuned.values),
        "steps": [curve.as_dict() for curve in tuning.curves],
        "novel": None if tuning.novel is None else tuning.novel.as_dict(),
        "picture": str(tuning.picture),
    }
