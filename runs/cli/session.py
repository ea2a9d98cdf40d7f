"""What the verbs that run configs share: checked configs, the store, the record of runs, and the plan."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from clustering.foundation.errors import InputError
from runs.cli.app import DryRun, Force, Json, Settings, console, verb
from runs.config.base import to_yaml
from runs.config.configs import RunConfig, parse
from runs.config.overrides import quoted

if TYPE_CHECKING:
    from runs.parallel import Parallel

SHOWN = 20  # lines of a plan, or jobs, that are shown; the others are counted


class Session:
    """Validated configs with the same `results`, and the store and the record they use.

    Raises:
        InputError: a strategy, benchmark or training rejects a value.
    """

    settings: Sequence[str] = ()  # as typed

    def __init__(self, configs: Sequence[RunConfig], *, as_json: bool = False, results: str | None = None) -> None:
        from runs.cache import Store
        from runs.track import Tracker

        if len(folders := {str(config.results): None for config in configs}) > 1:
            raise InputError(f"results= takes one folder, not several; {quoted('results', ','.join(folders))}")
        built: list[Any] = []
        for choice in (choice for config in configs for choice in config.choices().values()):
            if choice not in built:
                for point in choice.points():  # each value that tuning tries
                    point.build()
                built.append(choice)
        self.configs = configs
        self.console = console(as_json=as_json)
        self.store = Store(configs[0].results if configs else results)
        self.tracker = Tracker(self.store, say=self.console.note)
        self.failed: list[tuple[str, Exception]] = []

    def show_plan(self) -> int:
        """Print the configs and the planned stages; return the exit code."""
        from runs.plan import plan, summary

        steps = plan(self.configs, self.store)
        if self.console.as_json:
            known = {"runs": sum(step.runs for step in steps), "steps": [step._asdict() for step in steps]}
            self.console.json({"configs": [config.as_json() for config in self.configs], **known})
            return 0
        width = max((len(step.name) for step in steps), default=0)
        shown = [f"{step.stage:<10}  {step.name:<{width}}  {step.key}  {step.state}" for step in steps]
        lines = [f"# plan, with results in {self.store.root}", *_first(shown), summary(steps)]
        self.console.write("\n".join([*([to_yaml(self.configs)] if self.configs else []), *lines]))
        return 0

    def run(self, *, force: bool = False) -> list[Any]:
        """Return the results of the configs, computed or reused; if all failed, raise the error of the first."""
        from runs.jobs import compute

        results, self.failed = compute(self.configs, self.tracker, self.console, force)
        if self.failed and not results:
            raise self.failed[0][1]
        return results

    def run_missing(
        self, configs: Sequence[RunConfig], parallel: "Parallel", yes: bool, minutes: float = math.inf
    ) -> int:
        """Run what is missing of some configs, after the user has confirmed the plan; start no job after some minutes.

        Returns:
            The exit code of the first failure, else 0, also if time ran out or the user declined.

        Raises:
            InputError: a wrong value, or there is no terminal for the confirmation and -y is not given.
        """
        from runs.jobs import compute, missing
        from runs.parallel import run_all

        if minutes < math.inf and not (minutes > 0 and parallel.backend != "submitit"):
            raise InputError("--limit-minutes takes a number above 0; with submitit, set parallel.timeout_min instead")
        said, batch = self.console, missing(configs, self.store)
        for kind in dict.fromkeys(map(type, batch.cached)):  # recorded, if they are not in MLflow
            compute([config for config in batch.cached if type(config) is kind], self.tracker, said)
        if batch.jobs:
            plan = f"{batch.count:,} missing in {len(batch.jobs):,} jobs: {batch.summary}"
            blocked = [f"cannot be run: {failure}" for failure, _ in batch.failures]
            said.note("\n".join([*_first(batch.names), plan, *blocked]))
            if not yes and not sys.stdin.isatty():
                raise InputError("--run-missing asks for confirmation, but there is no terminal; add -y to run at once")
            if not yes and not typer.confirm("continue?", default=True, err=True):
                said.note("nothing was run")
                return 0
            said.note(f"reused {len(batch.cached):,}, running {batch.count:,}")
        run_all(batch, self.tracker, said, parallel, minutes)
        for failure, _ in batch.failures:
            said.error(f"failed: {failure}")
        if batch.jobs:
            said.note("\n".join(["not run; rerun the same command:", *_first(batch.names)]))
        return batch.code

    def varying(self, config: RunConfig, leave_out: Sequence[str] = ()) -> dict[str, str]:
        """Return keys whose values differ among configs with the same option, with this config's values as text."""
        values: dict[str, dict[str, set[str]]] = {}
        for flat in (other.shown() for other in self.configs):
            for key, value in flat.items():
                option = flat.get(key.partition(".")[0], "") if "." in key else ""
                values.setdefault(key, {}).setdefault(option, set()).add(value)
        kept = [key for key in values if any(len(found - {"tuned"}) > 1 for found in values[key].values())]
        groups = list(config.choices())
        kept.sort(key=lambda key: [*groups, key.partition(".")[0]].index(key.partition(".")[0]))
        return {key.rpartition(".")[2]: config.shown().get(key, "") for key in kept if key not in leave_out}

    def close(self) -> int:
        """Print where the results are, and return the exit code; raise the error of the first config that failed."""
        place = self.store.root if self.tracker.own else self.tracker.place
        self.console.note(f"runs: {place} (open them with transduce ui)")
        if self.failed:
            raise self.failed[0][1]
        return 0


Show = Callable[[Session, list[Any]], None]


def run_verb(
    name: str, schema: type[RunConfig], configs: Callable[[Sequence[str]], Sequence[RunConfig]] | None = None
) -> Callable[[Show], Show]:
    """Register a function that shows results as a verb that runs configs of a class, or plans them.

    `configs` reads the settings and checks them; default: `parse`.
    """

    def register(show: Show) -> Show:
        def run(settings: Settings = None, dry_run: DryRun = False, force: Force = False, json: Json = False) -> int:
            words = settings or []
            session = Session(configs(words) if configs else parse(schema, words), as_json=json)
            session.settings = words
            if dry_run:
                return session.show_plan()
            show(session, session.run(force=force))
            return session.close()

        run.__doc__ = show.__doc__
        verb(name, schema=schema)(run)
        return show

    return register


def _first(lines: list[str]) -> list[str]:
    return lines[:SHOWN] + ([f"  and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else [])
