"""Tuning of a strategy by a protocol: a parent run with one child per value; the novel classes are not used."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from clustering.foundation.progress import Progress, quiet
from fsl.evaluation.closed_splits import closed
from fsl.evaluation.paired import Difference
from runs.cache import Entry, Store
from runs.config.configs import TuneConfig
from runs.config.groups import option
from runs.config.overrides import is_number, spell
from runs.config.source import REQUIRED, freeze
from runs.config.tuning_protocol import TuningStep, steps_of
from runs.record.tracked_run import TrackedRun
from runs.stages.evaluations import EvaluationStage, Parent, check, evaluation, task_tags
from runs.stages.lineage import Lineage, common_tags, evaluate_name, short
from runs.stages.results import Tuned
from runs.stages.stage import Computed, Stage, Workspace, execute
from runs.stages.tuning_curves import Curve, Trial
from runs.storage.locks import Say, silent
from runs.track import Tracker

CURVES, PICTURE = "tuning.json", "tuning.png"
CHOSEN = "chosen"  # the tag that holds the chosen values as JSON


@dataclass(frozen=True, eq=False)
class Tuning:
    """A finished tuning.

    Attributes:
        config: the config.
        tuned: the chosen values and the id of their run.
        reused: whether it existed before.
        curves: the trials of each step; read from the cache for a figure, of the last step only.
        novel: the trials of the last step on tasks of novel classes, made after the choice; None unless requested.
        picture: path of the image of the curves.
    """

    config: TuneConfig
    tuned: Tuned
    reused: bool
    curves: tuple[Curve, ...]
    novel: Curve | None
    picture: Path

    @property
    def curve(self) -> Curve:
        """Every value of the last step, with the chosen one marked."""
        return self.curves[-1]

    @property
    def run_ids(self) -> list[str]:
        """The ids of the tuning's run and of the run of every value."""
        curves = [*self.curves, *([self.novel] if self.novel else [])]
        return [self.tuned.run_id, *(trial.result.run_id for curve in curves for trial in curve.trials)]


def chosen_values(config: TuneConfig, tags: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the values chosen by a tuning, read from the tags of its run; None if the tags are missing or invalid."""
    try:
        values = {field: freeze(value) for field, value in json.loads(tags[CHOSEN]).items()}
        grids = config.strategy.grids
        return values if values.keys() == grids.keys() and all(values[name] in grids[name] for name in grids) else None
    except (KeyError, ValueError, AttributeError, RecursionError):
        return None


def find_tuned(config: TuneConfig, store: Store, tracker: Tracker) -> Tuned | None:
    """Return the tuned values of a config from the cache; None if it is not tuned, or its run is not recorded."""
    found = TuningStage(config, Lineage.of(config), Workspace(store, tracker)).find(store, tracker)
    return found[0] if found and found[0].run_id else None


def tune(
    config: TuneConfig, store: Store, tracker: Tracker, *, progress: Progress = quiet, force: bool = False
) -> Tuning:
    """Choose the values of a config's strategy, or return those in the cache.

    The steps of the protocol run in order, each with the values chosen by the earlier steps. All values are tried on
    the same tasks. The novel classes cannot be read during the tuning. An interrupted tuning is resumed in its own
    run.

    Args:
        force: choose again, even if the result is in the cache.

    Raises:
        InputError: wrong values, or tasks that the classes cannot give; raised before any training.
    """
    stage = TuningStage(config, Lineage.of(config), Workspace(store, tracker, progress, force))
    results, failures = execute([stage], stage.work, check=stage.check_steps)
    if failures:
        raise failures[0][1]
    chosen, reused = results[stage.key]
    curves = stage.curves(chosen.run_id, quiet, chosen.values)
    novel = stage.novel(chosen) if config.novel_tasks else None
    if novel or not stage.picture.exists():
        stage.draw(tracker.tracked(chosen.run_id), curves, novel)
    return Tuning(config, chosen, reused, curves, novel, stage.picture)


def recorded_tuning(config: TuneConfig, tracker: Tracker, say: Say = silent) -> Tuning | None:
    """Return a tuning with the trials of its last step from the cache; None if a part of it is missing.

    Args:
        say: called with a message about what is missing.
    """
    stage = TuningStage(config, Lineage.of(config), Workspace(tracker.store, tracker))
    found = stage.find(tracker.store, tracker)
    if found is None:
        return None
    (chosen, reused), step = found, stage.steps[-1]
    try:
        curves = [
            Curve.of(step, stage.trials(step, chosen.values, split, tasks, chosen.run_id), chosen.values)
            for split, tasks in ((step.split, step.tasks), ("novel", config.novel_tasks))
            if tasks
        ]
    except LookupError as missing:
        say(str(missing.args[0]))
        return None
    return Tuning(config, chosen, reused, (curves[0],), curves[1] if config.novel_tasks else None, stage.picture)


@dataclass(frozen=True)
class TuningStage(Stage):
    """The tuning of one config. Its content is the file of chosen values and curves; its result is the tuned values,
    and whether they existed before."""

    kind, artifacts = "tuning", (CURVES,)

    config: TuneConfig
    lineage: Lineage
    work: Workspace

    @property
    def key(self) -> str:
        return self.lineage.tuning(self.config)

    @property
    def experiment(self) -> str:
        return f"tune/{short(self.config.benchmark)}"

    @property
    def name(self) -> str:
        return evaluate_name(self.config)

    @property
    def picture(self) -> Path:
        name = "-".join([*self.name.replace("/", " ").split(), self.key])
        return self.work.store.tables / f"tuning-{name}.png"

    @property
    def steps(self) -> tuple[TuningStep, ...]:
        return steps_of(self.config.tuning, self.config.strategy)

    @property
    def tags(self) -> dict[str, Any]:
        config = self.config
        return common_tags(config, self.lineage) | {"strategy": config.strategy.name} | task_tags(config)

    def compute(self, run: TrackedRun, prepared: None, work: Workspace) -> Computed:
        """Run all steps."""
        curves = self.curves(run.run_id, work.progress)
        values = {field: value for curve in curves for field, value in curve.chosen.values.items()}
        last, splits = curves[-1], list(dict.fromkeys(step.split for step in self.steps))
        inputs = work.store.fingerprints(*dict.fromkeys(name for one in splits for name in self.lineage.made_of(one)))
        metrics = {"accuracy": last.chosen.result.accuracy, "accuracy_ci95": last.chosen.result.ci95}
        metrics |= {} if last.gain is None else _named("gain", last.gain)
        metrics |= {f"chosen_{field}": float(value) for field, value in values.items() if is_number(value)}
        checkpoint = inputs.get(f"checkpoint/{self.lineage.checkpoint}", "")
        tags = {CHOSEN: json.dumps(values), "chosen_values": spell(values), "checkpoint": checkpoint}
        data = [used for split in splits for used in self.lineage.data(split)]
        content = {"chosen": values, "steps": [curve.as_dict() for curve in curves]}
        return Computed(content, metrics, tags, inputs, data)

    def save(self, content: Mapping[str, Any], folder: Path) -> None:
        (folder / CURVES).write_text(json.dumps(content, indent=1))

    def load(self, entry: Entry) -> dict[str, Any]:
        with open_regular(entry.path / CURVES) as file:
            content = json.load(file)
        values = chosen_values(self.config, {CHOSEN: json.dumps(content["chosen"])})
        if values is None:
            raise ValueError(f"{CURVES} has no values that the tuning tries")
        return {**content, "chosen": values}

    def log(self, run: TrackedRun, content: Mapping[str, Any], entry: Entry) -> None:
        self.draw(run, self.curves(run.run_id, quiet, content["chosen"]), None)

    def result(self, content: Mapping[str, Any], entry: Entry, run_id: str) -> tuple[Tuned, bool]:
        return Tuned(self.key, run_id, content["chosen"]), entry.reused

    def curves(self, run_id: str, progress: Progress, chosen: Mapping[str, Any] | None = None) -> tuple[Curve, ...]:
        """Return the curve of each step, from the children of a run; missing children are evaluated.

        Args:
            chosen: the chosen values; None: the best values of each step are chosen.
        """
        found: list[Curve] = []
        held: dict[str, Any] = {}
        with closed("novel"):
            for step in self.steps:
                force = self.work.force and chosen is None
                trials = self.trials(step, held, step.split, step.tasks, run_id, progress, force=force)
                curve = Curve.of(step, trials, chosen, self._defaults)
                found.append(curve)
                held |= curve.chosen.values
                if chosen is None:
                    best = curve.chosen
                    progress.note(
                        f"{self.name}: {best} is the best of {len(trials)} on {step.split} classes, "
                        f"{100 * best.result.accuracy:.2f} ± {100 * best.result.ci95:.2f} % in {step.tasks:,} tasks"
                    )
        return tuple(found)

    def novel(self, chosen: Tuned) -> Curve:
        """Return the trials of the last step on tasks of the novel classes, for information only: the choice is made
        before.
        """
        step, count = self.steps[-1], self.config.novel_tasks
        trials = self.trials(step, chosen.values, "novel", count, chosen.run_id, self.work.progress)
        curve = Curve.of(step, trials, chosen.values, self._defaults)
        self.work.tracker.tracked(chosen.run_id).log(
            metrics={
                "novel_accuracy": curve.chosen.result.accuracy,
                "novel_accuracy_ci95": curve.chosen.result.ci95,
                "novel_best_accuracy": curve.best.result.accuracy,
                **_named("novel_lost", curve.lost),
            },
            tags={"novel_best": str(curve.best), "novel_tasks": count},
        )
        return curve

    def draw(self, run: TrackedRun, curves: tuple[Curve, ...], novel: Curve | None) -> None:
        """Draw the curves, and save the image in the folder of tables and in the run."""
        from runs.figures.style import save
        from runs.figures.tuning import tuning_figure

        figure = tuning_figure(curves, f"{self.name}, tuned by {Path(self.config.tuning).stem}", novel)
        with self.work.store.watched(), tempfile.TemporaryDirectory() as folder:
            run.artifact(Path(shutil.copyfile(save(figure, self.picture), Path(folder) / PICTURE)))

    def check_steps(self, batches: Sequence[object]) -> None:
        """Check before the first step that every step can run; nothing is checked if there is nothing to do."""
        if not batches:
            return
        strategy, configs = self.config.strategy, []
        for step in self.steps:
            at_hand = next(strategy.at({**self._defaults, **step.at, **step.grids}).points())
            configs.append(self.config.trial(at_hand, step.split, step.tasks))
        try:
            with closed("novel"):
                check(configs, self.work.store, self.work.tracker, self.work.progress)
        except InputError as error:
            raise InputError(f"tuning={self.config.tuning}: {error}") from error

    def trials(
        self,
        step: TuningStep,
        held: Mapping[str, Any],
        split: str,
        tasks: int,
        run_id: str,
        progress: Progress | None = None,
        *,
        force: bool = False,
    ) -> tuple[Trial, ...]:
        """Return the trials of all combinations of a step's values on tasks of a split, with other fields at `held`.

        Args:
            progress: shows the evaluation of missing trials; None: nothing is evaluated.

        Raises:
            LookupError: without `progress`, a trial is missing.
        """
        points = list(self.config.strategy.at({**self._defaults, **step.at, **held, **step.grids}).points())
        configs = [self.config.trial(point, split, tasks) for point in points]
        values = [{field: point.options[field] for field in step.grids} for point in points]
        parent = Parent(self.experiment, run_id, tuple(step.grids))
        store, tracker = self.work.store, self.work.tracker
        if progress is not None:
            results = evaluation(configs, store, tracker, progress=progress, parent=parent, force=force)
        else:
            results = []
            for config, given in zip(configs, values, strict=True):
                found = EvaluationStage(config, config, self.lineage, parent).find(store, tracker)
                if found is None:
                    raise LookupError(f"{self.name} lacks {spell(given)} on {tasks:,} tasks of {split} classes")
                results.append(found)
        return tuple(map(Trial, values, results))

    @property
    def _defaults(self) -> dict[str, Any]:
        """Default values of the tuned fields; for a field without a default, the first value of its grid."""
        own = option("strategy", self.config.strategy.name).options
        grids = self.config.strategy.grids
        return {field: grid[0] if own[field] == REQUIRED else own[field] for field, grid in grids.items()}


def _named(name: str, difference: Difference) -> dict[str, float]:
    """Return the mean and the 95 % interval of a difference as metrics."""
    return {name: difference.mean, f"{name}_low": difference.low, f"{name}_high": difference.high}
