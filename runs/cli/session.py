"""State shared by the verbs that run stages: checked configs, the store, the record of runs, and the plan."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError
from runs.cli.app import console
from runs.config.configs import EvaluateConfig, RunConfig, TuneConfig, as_yaml, top_level
from runs.config.overrides import write

if TYPE_CHECKING:
    from runs.config.groups import Choice
    from runs.parallel import Parallel

VARIED = 12  # configs after the first of which a dry run shows what varies
STEPS = 20  # lines of a plan that a dry run shows
NAMED = 12  # jobs named before and after they run


class Session:
    """Validated configs, with the store and the record they use.

    Args:
        configs: configs with the same `results`.
        as_json: whether the verb prints JSON.
        results: the folder of results if `configs` is empty.

    Raises:
        InputError: a strategy, benchmark or training rejects a value.
    """

    def __init__(self, configs: Sequence[RunConfig], *, as_json: bool = False, results: str | None = None) -> None:
        from runs.cache import Store
        from runs.track import Tracker

        if len({config.results for config in configs}) > 1:
            raise InputError("results= takes one folder, not several")
        built = []
        for config in configs:
            for choice in config.choices().values():
                if choice not in built:
                    _check(choice, config)
                    built.append(choice)
        self.configs = configs
        self.console = console(as_json=as_json)
        self.store = Store(configs[0].results if configs else results)
        self.tracker = Tracker(self.store, say=self.console.note)
        self.failed: list[tuple[str, Exception]] = []

    def show_plan(self) -> int:
        """Print the first config, what varies in the others, and the planned stages; return the exit code."""
        from runs.plan import plan

        made, say, count = plan(self.configs, self.store), self.console.write, len(self.configs)
        if self.console.as_json:
            self.console.json({"configs": [config.as_json() for config in self.configs], **made.as_dict()})
            return 0
        for i, config in enumerate(self.configs[: VARIED + 1], 1):
            varied = " ".join(f"{key}={value}" for key, value in self.varying(config).items())
            say(f"# config {i}: {varied}" if i > 1 else f"# config 1 of {count}\n{_yaml(config)}")
        if count > VARIED + 1:
            say(f"# and {count - VARIED - 1:,} more; transduce config prints all of them")
        *steps, summary = str(made).splitlines() or [""]
        say("\n".join([f"# plan, with results in {self.store.root}", *_first(steps, STEPS), summary]))
        return 0

    def run(self, *, force: bool = False, all_or_nothing: bool = False) -> list[Any]:
        """Return the results of the configs, computed or reused; `close` raises the error of one that failed.

        Args:
            force: compute again.
            all_or_nothing: raise the error at once.
        """
        from runs.jobs import compute

        results, self.failed = compute(self.configs, self.store, self.tracker, progress=self.console, force=force)
        if self.failed and (all_or_nothing or not results):
            raise self.failed[0][1]
        return results

    def run_missing(
        self,
        configs: Sequence[RunConfig],
        parallel: "Parallel | None" = None,
        *,
        yes: bool,
        limit_minutes: float | None = None,
    ) -> int:
        """Run what is missing of some configs, after the user has confirmed the plan.

        Returns:
            The exit code of the first failure, else 0, also if time ran out or the user declined.

        Raises:
            InputError: a wrong value, or there is no terminal for the confirmation and -y is not given.
        """
        from runs.jobs import compute, missing
        from runs.parallel import Parallel, run_all

        parallel = parallel or Parallel()
        if limit_minutes is not None and not (limit_minutes > 0 and parallel.backend != "submitit"):
            raise InputError("--limit-minutes takes a number above 0; with submitit, set parallel.timeout_min instead")
        said, where = self.console, (self.store, self.tracker)
        work = missing(configs, *where)
        for kind in dict.fromkeys(map(type, work.cached)):  # recorded, if they are not in MLflow
            compute([config for config in work.cached if type(config) is kind], *where, progress=said)
        if work.jobs:
            jobs = f"{len(work.jobs):,} job{'s' if len(work.jobs) > 1 else ''}"
            for line in _first([f"  {job.name}" for job in work.jobs], NAMED):
                said.note(line)
            said.note(f"{work.count:,} missing in {jobs}: {work.summary}")
            for failure in work.blocked:
                said.note(f"cannot be run: {failure}")
            if not yes and not sys.stdin.isatty():
                raise InputError("--run-missing asks for confirmation, but there is no terminal; add -y to run at once")
            if not yes and not said.agree("continue?"):
                said.note("nothing was run")
                return 0
            said.note(f"reused {len(work.cached):,}, running {work.count:,}")
        outcome = run_all(work, *where, said, parallel, limit_minutes)
        for failure in outcome.failures:
            said.error(f"failed: {failure}")
        if outcome.not_started:
            names = _first([f"  {job.name}" for job in outcome.not_started], NAMED)
            said.note("\n".join(["not started; rerun the same command:", *names]))
        return outcome.code

    def varying(self, config: RunConfig, leave_out: Sequence[str] = ()) -> dict[str, str]:
        """Return keys with different values among the configs, with this config's values as text.

        A field does not vary if it only differs between different options of its group.
        """
        flats, values = [other.shown() for other in self.configs], dict[str, dict[str, set[str]]]()
        for flat in flats:
            for key, value in flat.items():
                option = flat.get(key.partition(".")[0], "") if "." in key else ""
                values.setdefault(key, {}).setdefault(option, set()).add(value)
        order = [*config.choices(), ""]
        groups = {key: key.partition(".")[0] for key in values}
        kept = [key for key in values if any(len(found - {"tuned"}) > 1 for found in values[key].values())]
        kept.sort(key=lambda key: order.index(groups[key] if groups[key] in order else ""))
        return {key.rpartition(".")[2]: config.shown().get(key, "") for key in kept if key not in leave_out}

    def close(self) -> int:
        """Print where the results are, and return the exit code.

        Raises:
            Exception: the error of the first config that failed.
        """
        place = self.store.root if self.tracker.own else self.tracker.place
        self.console.note(f"runs: {place} (open them with transduce ui)")
        if self.failed:
            raise self.failed[0][1]
        return 0


def _first(lines: list[str], count: int) -> list[str]:
    return lines[:count] + ([f"  and {len(lines) - count:,} more"] if len(lines) > count else [])


def _yaml(config: RunConfig) -> str:
    """Return a config as YAML with a line for each group, and without top-level keys that have their default."""
    defaults = {field.name: field.default for field in top_level(type(config))}
    kept = {key: value for key, value in config.nested().items() if key not in defaults or value != defaults[key]}
    return "".join(f"{key}: {as_yaml(value)}\n" for key, value in kept.items())


def _check(choice: "Choice", config: RunConfig) -> None:
    """Raise InputError unless the option can be built, also with each value that tuning tries."""
    for point in choice.points():
        try:
            point.build()
        except InputError as error:
            if not choice.grids or not isinstance(config, (EvaluateConfig, TuneConfig)):
                raise
            tried = "; ".join(f"{field}: {write(values)}" for field, values in choice.grids.items())
            raise InputError(f"{error}; tuning={config.tuning} tries {tried}") from error
