"""Tuning of a strategy by a protocol: a parent run with one child per value; the novel classes are not used."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from fsl.benchmarks.closed_splits import closed
from runs.cache import Entry, Store
from runs.config.configs import EvaluateConfig, TuneConfig
from runs.config.groups import option
from runs.config.overrides import is_number, spell
from runs.config.source import REQUIRED, freeze
from runs.config.tuning_protocol import TuningStep, steps_of
from runs.record.tracked_run import TrackedRun
from runs.stages.curves import Curve, Trial, interval
from runs.stages.evaluations import EvaluationStage, Parent, check, evaluate_tuned, task_tags
from runs.stages.lineage import Lineage, common_tags, evaluate_name, short
from runs.stages.results import Tuned
from runs.stages.stage import Computed, Stage, Workspace, execute
from runs.storage.locks import Say, silent
from runs.track import Tracker

CURVES = "tuning.json"


@dataclass(frozen=True, eq=False)
class Tuning:
    """A finished tuning."""

    config: TuneConfig  # the config
    tuned: Tuned  # the chosen values and the id of their run
    reused: bool  # whether it existed before
    curves: tuple[Curve, ...]  # the trials of each step; for a figure, of the last step only
    # the trials of the last step on tasks of novel classes, made after the choice; None unless requested
    novel: Curve | None

    @property
    def run_ids(self) -> list[str]:
        """The ids of the tuning's run and of the run of every value."""
        curves = [*self.curves, *([self.novel] if self.novel else [])]
        return [self.tuned.run_id, *(trial.result.run_id for curve in curves for trial in curve.trials)]

    def as_dict(self) -> dict[str, Any]:
        """Return the tuning as a dictionary for JSON."""
        return {
            "config": self.config.as_json(),
            "key": self.tuned.key,
            "run": self.tuned.run_id,
            "reused": self.reused,
            "chosen": dict(self.tuned.values),
            "steps": [curve.as_dict() for curve in self.curves],
            "novel": None if self.novel is None else self.novel.as_dict(),
        }


def find_tuned(config: EvaluateConfig, tracker: Tracker) -> Tuned | None:
    """Return the tuned values of a config from the cache; None if there is nothing to tune, or no recorded tuning."""
    stage = TuningStage.of(config.tuning_config(), Workspace(tracker.store, tracker)) if config.tuned else None
    found = stage.find(tracker.store, tracker) if stage else None
    return found[0] if found and found[0].run_id else None


def tune(
    config: TuneConfig, store: Store, tracker: Tracker, *, progress: Progress = quiet, force: bool = False
) -> Tuning:
    """Choose the values of a config's strategy, or return those in the cache.

    The steps of the protocol run in order, each with the values chosen by the earlier steps. All values are tried on
    the same tasks. The novel classes cannot be read during the tuning. An interrupted tuning is resumed in its own
    run.

    Raises:
        InputError: wrong values, or tasks that the classes cannot give; raised before any training.
    """
    stage = TuningStage.of(config, Workspace(store, tracker, progress, force))
    results, failures = execute([stage], stage.work, check=stage.check_steps)
    if failures:
        raise failures[0][1]
    (chosen, reused), novel = results[stage.key], None
    curves = stage.curves(chosen.run_id, quiet, chosen.values)
    if stage.novel_step:  # for information only: the choice is made before
        novel = stage.curve(stage.novel_step, chosen.values, chosen.run_id, progress, chosen.values)
        own = novel.chosen.result
        metrics = {"novel_accuracy": own.accuracy, "novel_accuracy_ci95": own.ci95}
        metrics |= {"novel_best_accuracy": novel.best.result.accuracy}
        metrics |= interval(novel.lost, "novel_lost", "novel_lost_low", "novel_lost_high")
        tags = {"novel_best": str(novel.best), "novel_tasks": config.novel_tasks}
        tracker.tracked(chosen.run_id).log(metrics=metrics, tags=tags)
    return Tuning(config, chosen, reused, curves, novel)


def recorded_tuning(config: TuneConfig, tracker: Tracker, say: Say = silent) -> Tuning | None:
    """Return a tuning with the trials of its last step from the cache; None if a part is missing, which `say` tells."""
    stage = TuningStage.of(config, Workspace(tracker.store, tracker))
    found = stage.find(tracker.store, tracker)
    if found is None:
        return None
    (chosen, reused), steps = found, [stage.steps[-1], *([stage.novel_step] if stage.novel_step else [])]
    try:
        curve, *novel = (stage.curve(step, chosen.values, chosen.run_id, None, chosen.values) for step in steps)
    except LookupError as missing:
        say(str(missing.args[0]))
        return None
    return Tuning(config, chosen, reused, (curve,), novel[0] if novel else None)


@dataclass(frozen=True, kw_only=True)
class TuningStage(Stage):
    """The tuning of one config. Its content is the file of chosen values and curves; its result is the tuned values,
    and whether they existed before."""

    kind, artifacts = "tuning", (CURVES,)

    lineage: Lineage
    work: Workspace

    @classmethod
    def of(cls, config: TuneConfig, work: Workspace) -> "TuningStage":
        """Return the stage of a config."""
        lineage = Lineage.of(config)
        tags = common_tags(config, lineage) | {"strategy": config.strategy.name} | task_tags(config)
        key, experiment, name = lineage.tuning(config), f"tune/{short(config.benchmark)}", evaluate_name(config)
        return cls(config=config, key=key, experiment=experiment, name=name, tags=tags, lineage=lineage, work=work)

    @property
    def steps(self) -> tuple[TuningStep, ...]:
        return steps_of(self.config.tuning, self.config.strategy)

    @property
    def novel_step(self) -> TuningStep | None:
        """The last step on tasks of the novel classes, after the choice; None if the config asks for none."""
        count, novel = self.config.novel_tasks, cast("Any", "novel")
        return dataclasses.replace(self.steps[-1], split=novel, tasks=count) if count else None

    @property
    def defaults(self) -> dict[str, Any]:
        """Default values of the tuned fields; for a field without a default, the first value of its grid."""
        own = option("strategy", self.config.strategy.name).options
        grids = self.config.strategy.grids
        return {field: grid[0] if own[field] == REQUIRED else own[field] for field, grid in grids.items()}

    def compute(self, run: TrackedRun, prepared: None, work: Workspace) -> Computed:
        """Run all steps."""
        curves = self.curves(run.run_id, work.progress)
        values = {field: value for curve in curves for field, value in curve.chosen.values.items()}
        last, splits = curves[-1], list(dict.fromkeys(step.split for step in self.steps))
        inputs = work.store.fingerprints(*dict.fromkeys(name for one in splits for name in self.lineage.made_of(one)))
        metrics = {"accuracy": last.chosen.result.accuracy, "accuracy_ci95": last.chosen.result.ci95}
        metrics |= interval(last.gain, "gain", "gain_low", "gain_high") if last.gain else {}
        metrics |= {f"chosen_{field}": float(value) for field, value in values.items() if is_number(value)}
        checkpoint = inputs.get(f"checkpoint/{self.lineage.checkpoint}", "")
        tags = {"chosen": json.dumps(values), "chosen_values": spell(values), "checkpoint": checkpoint}
        data = [used for split in splits for used in self.lineage.data(split)]
        return Computed({"chosen": values, "steps": [one.as_dict() for one in curves]}, metrics, tags, inputs, data)

    def save(self, content: Mapping[str, Any], folder: Path) -> None:
        (folder / CURVES).write_text(json.dumps(content, indent=1))

    def load(self, entry: Entry) -> dict[str, Any]:
        with open_regular(entry.path / CURVES) as file:
            content = json.load(file)
        values = {field: freeze(content["chosen"][field]) for field in self.config.strategy.grids}
        if not all(values[field] in grid for field, grid in self.config.strategy.grids.items()):
            raise ValueError(f"{CURVES} has no values that the tuning tries")
        return {**content, "chosen": values}

    def result(self, content: Mapping[str, Any], entry: Entry, run_id: str) -> tuple[Tuned, bool]:
        return Tuned(self.key, run_id, content["chosen"]), entry.reused

    def check_steps(self, batches: Sequence[object]) -> None:
        """Check before the first step that every step can run; nothing is checked if there is nothing to do."""
        configs = []
        for step in self.steps if batches else ():
            point = next(self.config.strategy.at({**self.defaults, **step.at, **step.grids}).points())
            configs.append(self.config.trial(point, step.split, step.tasks))
        try:
            with closed("novel"):
                check(configs, self.work)
        except InputError as error:
            raise InputError(f"tuning={self.config.tuning}: {error}") from error

    def curves(self, run_id: str, progress: Progress, chosen: Mapping[str, Any] | None = None) -> tuple[Curve, ...]:
        """Return the curve of each step as `curve`, with the values chosen by the earlier steps; missing trials are
        evaluated."""
        found, held = list[Curve](), dict[str, Any]()
        with closed("novel"):
            for step in self.steps:
                curve = self.curve(step, held, run_id, progress, chosen)
                best, count = curve.chosen, len(curve.trials)
                found.append(curve)
                held |= best.values
                if chosen is None:
                    accuracy = f"{100 * best.result.accuracy:.2f} ± {100 * best.result.ci95:.2f} %"
                    where = f"the best of {count} on {step.split} classes, {accuracy} in {step.tasks:,} tasks"
                    progress.note(f"{self.name}: {best} is {where}")
        return tuple(found)

    def curve(
        self,
        step: TuningStep,
        held: Mapping[str, Any],
        run_id: str,
        progress: Progress | None,
        chosen: Mapping[str, Any] | None,
    ) -> Curve:
        """Return the trials of all combinations of a step's values, from the children of a run.

        Args:
            held: values of other fields.
            progress: shows the evaluation of missing trials; None: nothing is evaluated.
            chosen: the chosen values; None: the best trial is chosen.

        Raises:
            LookupError: without `progress`, a trial is missing.
        """
        points = list(self.config.strategy.at({**self.defaults, **step.at, **held, **step.grids}).points())
        configs = [self.config.trial(point, step.split, step.tasks) for point in points]
        values = [{field: point.options[field] for field in step.grids} for point in points]
        parent, (store, tracker, _, force) = Parent(self.experiment, run_id, tuple(step.grids)), self.work
        results: list[Any]
        if progress is not None:
            work = Workspace(store, tracker, progress, force and chosen is None)
            results = evaluate_tuned(configs, [None] * len(configs), work, parent=parent)
        else:
            of = EvaluationStage.of
            results = [of(config, self.lineage, None, parent).find(store, tracker) for config in configs]
            if None in results:
                missing = spell(values[results.index(None)])
                raise LookupError(f"{self.name} lacks {missing} on {step.tasks:,} tasks of {step.split} classes")
        trials = tuple(map(Trial, values, results))
        by_values = {tuple(trial.values.values()): trial for trial in trials}
        best = max(trials, key=lambda trial: trial.result.accuracy)
        best = by_values[tuple(chosen[field] for field in step.grids)] if chosen else best
        return Curve(step, trials, best, by_values.get(tuple(self.defaults[field] for field in step.grids)))
