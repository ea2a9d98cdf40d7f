"""The flag `--run-missing`: show the plan, ask for confirmation, run, and report the outcome."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from runs.console.output import Console

if TYPE_CHECKING:
    from runs.cli.session import Session
    from runs.jobs import Config, Job
    from runs.parallel import Parallel

SHOWN = 12  # jobs named in a plan


def run_missing(
    configs: "Sequence[Config]", session: "Session", parallel: "Parallel", *, yes: bool, limit_minutes: float | None
) -> int:
    """Run missing evaluations or clusterings after the user has confirmed the plan.

    Returns:
        The exit code of the first failure, else 0, also if time ran out or the user declined.

    Raises:
        InputError: a wrong value, or there is no terminal for the confirmation and -y is not given.
    """
    from runs.jobs import missing
    from runs.parallel import run_all

    if limit_minutes is not None and not (limit_minutes > 0 and parallel.backend != "submitit"):
        raise InputError("--limit-minutes takes a number above 0; with submitit, set parallel.timeout_min instead")
    console, store, tracker = session.console, session.store, session.tracker
    work = missing(configs, store, tracker)
    _record(work.cached, session)
    if work.jobs:
        console.note("\n".join(_named(job for job in (*work.preparations, *work.jobs))))
        console.note(
            f"{work.count:,} missing in {len(work.jobs):,} job{'s' if len(work.jobs) > 1 else ''}: {work.summary}"
        )
        for failure in work.blocked:
            console.note(f"cannot be run: {failure}")
        if not agreed(console, yes=yes):
            return 0
        console.note(f"reused {len(work.cached):,}, running {work.count:,}")
    outcome = run_all(work, store, tracker, console, parallel, limit_minutes)
    for failure in outcome.failures:
        console.error(f"failed: {failure}")
    if outcome.not_started:
        console.note("not started; rerun the same command:\n" + "\n".join(_named(outcome.not_started)))
    return outcome.code


def _record(cached: "Sequence[Config]", session: "Session") -> None:
    """Record results of the cache that are not in MLflow, where tables look for them."""
    from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig

    if few_shot := [config for config in cached if isinstance(config, EvaluateConfig)]:
        session.evaluation(few_shot, force=False)
    if clusterings := [config for config in cached if isinstance(config, ClusterConfig)]:
        session.clustering(clusterings, force=False)
    if fair := [config for config in cached if isinstance(config, FairConfig)]:
        session.fair(fair, force=False)


def _named(jobs: "Iterable[Job]") -> list[str]:
    names = [f"  {job.name}" for job in jobs]
    return names[:SHOWN] + ([f"  and {len(names) - SHOWN:,} more"] if len(names) > SHOWN else [])


def agreed(console: Console, *, yes: bool) -> bool:
    """Return whether the user confirms the plan that was shown.

    Raises:
        InputError: there is no terminal for the confirmation, and -y is not given.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InputError("--run-missing asks for confirmation, but there is no terminal; add -y to run without asking")
    if console.agree("continue?"):
        return True
    console.note("nothing was run")
    return False
