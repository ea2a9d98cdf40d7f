"""Tuning of a strategy by a protocol: a parent run with one child per value; the novel classes are not used."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
from runs.stages.evaluations import TASK_TAGS, Parent, check, evaluation
from runs.stages.lineage import Lineage, common_tags, evaluate_name, short
from runs.stages.results import Tuned
from runs.stages.stage import Computed, Stage, Workspace, execute
from runs.stages.tuning_curves import Curve, Trial, best_of
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
        curves: the trials of each step.
        novel: the trials of the last step on tasks of novel classes, made after the choice; None unless requested.
        picture: path of the image of the curves.
    """

    config: TuneConfig
    tuned: Tuned
    reused: bool
    curves: tuple[Curve, ...]
    novel: Curve | None
    picture: Path


def chosen_values(config: TuneConfig, tags: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the values chosen by a tuning, read from the tags of its run; None if the tags are missing or invalid."""
    try:
        values = {field: freeze(value) for field, value in json.loads(tags[CHOSEN]).items()}
        grids = config.strategy.grids
        return values if values.keys() == grids.keys() and all(values[name] in grids[name] for name in grids) else None
    except (KeyError, ValueError, AttributeError, RecursionError):
        return None


def find_tuned(config: TuneConfig, store: Store, tracker: Tracker, *, progress: Progress = quiet) -> Tuned | None:
    """Return the tuned values of a config from the cache; None if it is not tuned, or its run is not recorded."""
    work = Workspace(store, tracker, progress)
    found = TuningStage(config, Lineage.of(config), work).find(store, tracker)
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
    work = Workspace(store, tracker, progress, force)
    stage = TuningStage(config, Lineage.of(config), work)
    results, failures = execute([stage], work, check=stage.check_steps)
    if failures:
        raise failures[0][1]
    chosen, reused = results[stage.key]
    curves = stage.curves(chosen.run_id, quiet, chosen.values)
    novel = stage.novel(chosen, curves[-1]) if config.novel_tasks else None
    if novel or not stage.picture.exists():
        stage.draw(tracker.tracked(chosen.run_id), curves, novel)
    return Tuning(config, chosen, reused, curves, novel, stage.picture)


class Found(NamedTuple):
    """The chosen values, and the trials of each step, which are read again from the cache if they are empty."""

    values: Mapping[str, Any]
    curves: tuple[Curve, ...] = ()


@dataclass(frozen=True)
class TuningStage(Stage[None, Found, tuple[Tuned, bool]]):
    """The tuning of one config. Its result is the tuned values, and whether they existed before."""

    kind, noun, counted, artifacts = "tuning", "the tuning", False, (CURVES,)

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
        options = config.sampler.options
        shape = {name: options[name] for name in TASK_TAGS if name in options}
        names = {"strategy": config.strategy.name, "sampler": config.sampler.name}
        return common_tags(config, self.lineage) | names | shape

    def compute(self, run: TrackedRun, prepared: None, work: Workspace) -> Computed[Found]:
        """Run all steps."""
        curves = self.curves(run.run_id, work.progress)
        values = {field: value for curve in curves for field, value in curve.chosen.values.items()}
        last, splits = curves[-1], list(dict.fromkeys(step.split for step in self.steps))
        made_of = dict.fromkeys(name for split in splits for name in self.lineage.made_of(split))
        inputs = work.store.fingerprints(*made_of)
        numbers = {f"chosen_{field}": float(value) for field, value in values.items() if is_number(value)}
        return Computed(
            Found(values, curves),
            {"accuracy": last.chosen.result.accuracy, "accuracy_ci95": last.chosen.result.ci95}
            | ({} if last.gain is None else _named("gain", last.gain))
            | numbers,
            {
                CHOSEN: json.dumps(values),
                "chosen_values": spell(values),
                "checkpoint": inputs.get(f"checkpoint/{self.lineage.checkpoint}", ""),
            },
            inputs,
            [used for split in splits for used in self.lineage.data(split)],
        )

    def save(self, content: Found, folder: Path) -> None:
        steps = [curve.as_dict() for curve in content.curves]
        (folder / CURVES).write_text(json.dumps({"chosen": dict(content.values), "steps": steps}, indent=1))

    def load(self, entry: Entry) -> Found:
        with open_regular(entry.path / CURVES) as file:
            chosen = json.load(file)["chosen"]
        values = chosen_values(self.config, {CHOSEN: json.dumps(chosen)})
        if values is None:
            raise ValueError(f"{CURVES} has no values that the tuning tries")
        return Found(values)

    def log(self, run: TrackedRun, content: Found, entry: Entry) -> None:
        self.draw(run, content.curves or self.curves(run.run_id, quiet, content.values), None)

    def result(self, content: Found, entry: Entry, run_id: str) -> tuple[Tuned, bool]:
        return Tuned(self.key, run_id, content.values), entry.reused

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
                trials = self._trials(step, held, step.split, step.tasks, run_id, progress, force=force)
                curve = self._curve(step, trials, chosen)
                found.append(curve)
                held |= curve.chosen.values
                if chosen is None:
                    self._tell(curve)
        return tuple(found)

    def novel(self, chosen: Tuned, last: Curve) -> Curve:
        """Return the trials of the last step on tasks of the novel classes, for information only: the choice is made
        before.
        """
        count, values = self.config.novel_tasks, chosen.values
        trials = self._trials(last.step, values, "novel", count, chosen.run_id, self.work.progress)
        curve = self._curve(last.step, trials, values)
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

    def _curve(self, step: TuningStep, trials: tuple[Trial, ...], chosen: Mapping[str, Any] | None) -> Curve:
        """Return the curve of a step, with the given choice or else with the best trial."""
        by_values = {tuple(trial.values.values()): trial for trial in trials}
        own = by_values.get(tuple(self._defaults[field] for field in step.grids))
        best = by_values[tuple(chosen[field] for field in step.grids)] if chosen else best_of(trials)
        return Curve(step, trials, best, own)

    def _trials(
        self,
        step: TuningStep,
        held: Mapping[str, Any],
        split: str,
        tasks: int,
        run_id: str,
        progress: Progress,
        *,
        force: bool = False,
    ) -> tuple[Trial, ...]:
        """Return the trials of all combinations of a step's values on tasks of a split, with other fields at `held`."""
        points = list(self.config.strategy.at({**self._defaults, **step.at, **held, **step.grids}).points())
        configs = [self.config.trial(point, split, tasks) for point in points]
        parent = Parent(self.experiment, run_id, tuple(step.grids))
        store, tracker = self.work.store, self.work.tracker
        results = evaluation(configs, store, tracker, progress=progress, parent=parent, force=force)
        values = [{field: point.options[field] for field in step.grids} for point in points]
        return tuple(Trial(given, result) for given, result in zip(values, results, strict=True))

    @property
    def _defaults(self) -> dict[str, Any]:
        """Default values of the tuned fields; for a field without a default, the first value of its grid."""
        own = option("strategy", self.config.strategy.name).options
        grids = self.config.strategy.grids
        return {field: grid[0] if own[field] == REQUIRED else own[field] for field, grid in grids.items()}

    def _tell(self, curve: Curve) -> None:
        chosen, step = curve.chosen, curve.step
        self.work.progress.note(
            f"{self.name}: {chosen} is the best of {len(curve.trials)} on {step.split} classes, "
            f"{100 * chosen.result.accuracy:.2f} ± {100 * chosen.result.ci95:.2f} % in {step.tasks:,} tasks"
        )


def _named(name: str, difference: Difference) -> dict[str, float]:
    """Return the mean and the 95 % interval of a difference as metrics."""
    return {name: difference.mean, f"{name}_low": difference.low, f"{name}_high": difference.high}
