"""The flag `--run-missing`: show the plan, ask for confirmation, run, and report the outcome."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig
from runs.console.output import Console

if TYPE_CHECKING:
    from runs.cache import Store
    from runs.scheduling.execution import Outcome
    from runs.scheduling.missing import Missing
    from runs.track import Tracker

FLAGS = ("run-missing", "yes", "executor", "limit-minutes")
SHOWN = 12  # jobs named in a plan
NOTHING_TO_RUN = 2  # exit code if an input of every run is missing, as after any input error


def run_missing(
    configs: Sequence[EvaluateConfig | ClusterConfig | FairConfig],
    store: "Store",
    tracker: "Tracker",
    console: Console,
    flags: Flags,
) -> int:
    """Run missing evaluations or clusterings after the user has confirmed the plan.

    Returns:
        The exit code of the first failure, else 0, also if time ran out or the user declined.

    Raises:
        InputError: there is no terminal for the confirmation, and -y is not given.
    """
    clusterings = [config for config in configs if isinstance(config, (ClusterConfig, FairConfig))]
    if clusterings:
        return _cluster_missing(clusterings, store, tracker, console, flags)
    evaluations = [config for config in configs if isinstance(config, EvaluateConfig)]
    return _evaluate_missing(evaluations, store, tracker, console, flags)


def _evaluate_missing(
    configs: Sequence[EvaluateConfig], store: "Store", tracker: "Tracker", console: Console, flags: Flags
) -> int:
    from runs.scheduling.execution import run_all
    from runs.scheduling.missing import plan_missing

    missing = plan_missing(configs, store, tracker)
    _show_plan(missing, console)
    if missing.jobs:
        if not agreed(console, flags):
            return 0
        console.note(f"reused {missing.finished}, running {missing.count}")
    limit, executor = flags.limit_minutes, flags.executor
    outcome = run_all(configs, store, tracker, console, executor=executor, limit_minutes=limit, missing=missing)
    _show_outcome(outcome, console, limit)
    return outcome.code


def _cluster_missing(
    configs: Sequence[ClusterConfig | FairConfig],
    store: "Store",
    tracker: "Tracker",
    console: Console,
    flags: Flags,
) -> int:
    """Run clusterings one by one in this process: each uses all cores, and those on one data set share its graph."""
    from runs.scheduling.jobs import Failure
    from runs.stages.clustering.fitting import ClusteringStage
    from runs.stages.clustering.stage import clustering, stage_of
    from runs.stages.fair.stage import FairStage, fair_clustering

    if flags.executor != "local":
        raise InputError("clusterings run one after the other, each on all cores; omit --executor")
    waiting: dict[str, ClusteringStage | FairStage] = {}
    blocked: dict[str, dict[str, None]] = {}  # names in order, by reason
    finished: set[str] = set()
    for config in configs:
        stage: ClusteringStage | FairStage
        try:
            stage = FairStage.on(config) if isinstance(config, FairConfig) else stage_of(config)
        except InputError as error:
            blocked.setdefault(str(error), {})[f"{config.method.name} on {config.dataset.name}"] = None
            continue
        if tracker.store.peek(stage.kind, stage.key):
            finished.add(stage.key)
        else:
            waiting[stage.key] = stage
    for reason, blocked_names in blocked.items():
        console.note(f"cannot be run: {', '.join(blocked_names)}: {reason}")
    if not waiting:
        return NOTHING_TO_RUN if blocked and not finished else 0
    for stage in list(waiting.values())[:SHOWN]:
        console.note(f"  {stage.name}")
    console.note(f"{_count(len(waiting), 'clustering')}, each with all its trials or weights")
    if not agreed(console, flags):
        return 0
    console.note(f"reused {len(finished)}, running {len(waiting)}")
    since, code, left = time.monotonic(), 0, list(waiting.values())
    while left and not (flags.limit_minutes and time.monotonic() - since > 60 * flags.limit_minutes):
        stage = left.pop(0)
        try:
            if isinstance(stage, FairStage):
                _, failed = fair_clustering([stage.config], store, tracker, progress=console)
                if failed:
                    raise failed[0]
            else:
                clustering([stage.config], store, tracker, progress=console)
        except Exception as error:  # the others still run
            failure = Failure.of(stage.name, error)
            console.error(f"failed: {failure}")
            code = code or failure.code
            if failure.ends_all:
                break
    if left:
        names = ", ".join(stage.name for stage in left[:SHOWN])
        console.note(f"not started{_within(flags.limit_minutes)}: {names}; rerun the same command")
    return code


def agreed(console: Console, flags: Flags) -> bool:
    """Return whether the user confirms the plan that was shown.

    Raises:
        InputError: there is no terminal for the confirmation, and -y is not given.
    """
    if flags.yes:
        return True
    if not sys.stdin.isatty():
        raise InputError("--run-missing asks for confirmation, but there is no terminal; add -y to run without asking")
    if console.agree("continue?"):
        return True
    console.note("nothing was run")
    return False


def _show_plan(missing: "Missing", console: Console) -> None:
    from runs.console.output import duration

    for failure in missing.blocked:
        console.note(f"cannot be run: {failure}")
    if not missing.jobs:
        return
    for job in missing.jobs[:SHOWN]:
        console.note(f"  {job.name}{f', about {duration(job.seconds)}' if job.seconds >= 1 else ''}")
    if len(missing.jobs) > SHOWN:
        console.note(f"  and {len(missing.jobs) - SHOWN} more")
    work = f"{_count(missing.count, 'evaluation')} in {_count(len(missing.jobs), 'job')}"
    console.note(f"{work}: {missing.plan.summary}")


def _show_outcome(outcome: "Outcome", console: Console, limit: float | None) -> None:
    for failure in outcome.failures:
        console.error(f"failed: {failure}")
    if outcome.not_started:
        names = ", ".join(job.name for job in outcome.not_started[:SHOWN])
        rest = len(outcome.not_started) - SHOWN
        others = f" and {rest} more" if rest > 0 else ""
        console.note(f"not started{_within(limit)}: {names}{others}; rerun the same command")


def _within(limit: float | None) -> str:
    return "" if limit is None else f" within --limit-minutes {limit:g}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
