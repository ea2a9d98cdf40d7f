"""The few-shot verbs: quickstart, train, evaluate, tune, compare, tasks. Slow imports stand inside functions."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustering.foundation.errors import InputError
from runs.cli.app import DryRun, Force, Json, Settings, console, named, one, verb
from runs.cli.session import Session, run_verb
from runs.config.configs import EvaluateConfig, TrainConfig, TuneConfig, parse
from runs.config.overrides import spell, split, values

if TYPE_CHECKING:
    from fsl.evaluation.paired import Difference
    from fsl.evaluation.scores import Evaluation
    from runs.cache import Entry
    from runs.stages.results import Result
    from runs.stages.tuning import Tuning

QUICKSTART = "quickstart"
STATES = {True: "reused", False: "new"}


@run_verb("quickstart", EvaluateConfig, lambda words: parse(EvaluateConfig, [f"experiment={QUICKSTART}", *words]))
def quickstart(session: Session, results: "list[Result]") -> None:
    """Train, evaluate and report on the embedded benchmark, in a few minutes.

    On two cores: train a small backbone, extract features, evaluate strategies on 1-shot and 5-shot tasks, log every
    run to MLflow, and write a table, two figures and the report. Finished steps are reused.

    Examples:
      transduce quickstart
      transduce quickstart seed=0,1,2
      transduce quickstart epochs=4 warmup=1 tasks=500     (half a minute, worse features)
    """
    if session.failed:
        return
    from runs.figures.quickstart import quickstart_figures
    from runs.report.site import build_report
    from runs.tables.evidence import look_up
    from runs.tables.grid import table_of
    from runs.tables.requested import show_table

    said, configs = session.console, [result.config for result in results]
    table = dataclasses.replace(look_up(table_of(QUICKSTART, configs), session.tracker), findings=())
    show_table(table, ["table", QUICKSTART], session.store, said)
    for path in quickstart_figures(table, results, session.store, QUICKSTART):
        said.note(f"saved: {path}.pdf, .svg and .png")
    page = build_report(session.store, session.tracker, experiments={QUICKSTART: configs}, say=said.note)
    said.note(f"report: {page.as_uri()}")


def _trained(settings: Sequence[str]) -> list[TrainConfig]:
    configs = parse(TrainConfig, settings)
    if any(config.features is not None for config in configs):
        raise InputError("features= needs no training; use it with transduce evaluate or transduce tune")
    return configs


@run_verb("train", TrainConfig, _trained)
def train(session: Session, entries: "list[Entry]") -> None:
    """Train a backbone on the base classes of a benchmark.

    The weights with the best nearest-prototype accuracy on the validation classes are stored. Finished trainings are
    reused; the same command resumes an interrupted one after its last finished epoch. checkpoint=FILE takes the weights
    of a file, written by any program, and pretrained= published weights; neither trains.

    Examples:
      transduce train benchmark=glyphs epochs=5 seed=0,1,2
      transduce train benchmark=mini root=FOLDER backbone=conv4 checkpoint=model_best.pth.tar
      transduce train backbone=./mynet.py:TinyNet trainer.precision=bf16-mixed callbacks.early_stopping.patience=10
    """
    from runs.stages.checkpoints import CHECKPOINT

    facts, rows = [], []
    for config, entry in zip(session.configs, entries, strict=True):
        file, numbers = str(entry.path / CHECKPOINT), entry.metrics
        known = {"checkpoint": file, "key": entry.key, "run": entry.run, "reused": entry.reused}
        facts.append({"config": config.as_json(), **known, **numbers})
        best, epochs = numbers.get("best_validation_accuracy"), numbers.get("epochs")
        scores = {
            "validation accuracy": "" if best is None else f"{100 * best:.2f} %",
            "epochs": "" if epochs is None else f"{epochs:.0f}",
        }
        trained = "/".join(config.choices()[group].name for group in ("benchmark", "backbone"))
        state = {"": STATES[entry.reused], "checkpoint": file}
        rows.append({"training": trained, **session.varying(config), **scores, **state})
    session.console.show(facts, rows, right=("validation accuracy", "epochs"))


@run_verb("evaluate", EvaluateConfig)
def evaluate(session: Session, results: "list[Result]") -> None:
    """Evaluate strategies on few-shot tasks; train first if needed.

    The tasks are drawn from the novel classes of a benchmark; every strategy gets the same ones. Shows the mean
    accuracy with its 95 % interval over tasks. If no checkpoint matches, the backbone is trained; checkpoint=FILE takes
    the weights from a file, pretrained=true timm's weights, features=FILE the features. Finished evaluations are
    reused.

    Examples:
      transduce evaluate shot=1,5 strategy=simpleshot,laplacianshot
      transduce evaluate strategy=laplacianshot,slk_ms shot=1,5 tuning=papers
      transduce evaluate benchmark=mini root=FOLDER backbone=timm:resnet50 pretrained=true
      transduce evaluate features=output.plk strategy=simpleshot,laplacianshot shot=1,5
      transduce evaluate strategy=laplacianshot --help            (the fields of that strategy)
      transduce evaluate strategy=mypackage.mymodule:MyStrategy   (a strategy of your own)
    """
    from runs.stages.lineage import short
    from runs.stages.results import in_common

    facts, rows, units = [], [], sorted({result.units for result in results}, reverse=True)
    for result in results:
        tuned, classes = result.tuned, result.classes
        known = {"tasks": len(result.accuracies), "key": result.key, "run": result.run_id, "reused": result.reused}
        if tuned is not None:
            known["tuning"] = {"key": tuned.key, "run": tuned.run_id, "chosen": dict(tuned.values)}
        facts.append(
            {"config": result.settled.as_json(), **result.metrics(), "interval": f"over {result.units}", **known}
        )
        scores = {"accuracy": _percent(result)}
        if result.units == "queries":  # a single task, as in Table 4.3, "Per Class"
            scores["per class"] = f"{100 * classes.mean:.2f} ± {100 * classes.half_width:.2f} %"
        for name, accuracies in result.audits.items():
            scores[f"audit: {name.replace('_', ' ')}"] = f"{100 * accuracies.mean():.2f} %"
        row = {"strategy": short(result.config.strategy), **session.varying(result.config, leave_out=("strategy",))}
        row |= {} if tuned is None else {"tuned": spell(tuned.values)}
        state = {"ms/task": f"{1000 * result.seconds_per_task:.3g}", "": STATES[result.reused]}
        rows.append({**row, **scores, **state})
    title = f"{in_common(results)}, 95 % interval over {' or '.join(units)}"
    session.console.show(facts, rows, title=title, right=(*scores, "ms/task"))


def _tuned(settings: Sequence[str]) -> list[TuneConfig]:
    asked = parse(TuneConfig, settings)
    configs = [config for config in asked if config.strategy.grids]
    without = ", ".join(dict.fromkeys(config.strategy.name for config in asked if not config.strategy.grids))
    if not configs:
        raise InputError(
            f"tuning={asked[0].tuning} has no values for {without}; give values, as in temperature=5,15,30, or your "
            "own protocol, tuning=FILE.yaml"
        )
    if without:
        console().note(f"nothing to tune for {without}; it is skipped")
    return configs


@run_verb("tune", TuneConfig, _tuned)
def tune(session: Session, tunings: "list[Tuning]") -> None:
    """Choose a strategy's parameters on base and validation classes.

    Separately for each sampler, benchmark, backbone and seed. All values are tried on the same tasks, and the novel
    classes cannot be read. The protocol tuning= lists the steps and values; several values of a field replace the
    protocol's. transduce evaluate with the same keys uses the chosen values.

    Examples:
      transduce tune strategy=laplacianshot,slk_ms shot=1,5 tuning=mine.yaml
      transduce tune strategy=laplacianshot novel_tasks=10000     (then compare with the best on novel classes)
      transduce tune strategy=tim_adm temperature=5,15,30
    """
    from runs.stages.lineage import evaluate_name, short

    rows, notes = [], []
    for tuning in tunings:
        name, varying = evaluate_name(tuning.config), session.varying(tuning.config, leave_out=("strategy",))
        for curve in tuning.curves:
            chosen = curve.chosen
            tried = {"classes": curve.step.split, "tasks": f"{curve.step.tasks:,}", "tried": f"{len(curve.trials)}"}
            found = {"chosen": str(chosen), "accuracy": _percent(chosen.result)}
            found["default"] = "" if curve.default is None else str(curve.default)
            found["gain"] = "" if curve.gain is None or chosen is curve.default else _points(curve.gain)
            state = {"": STATES[tuning.reused]}
            rows.append({"strategy": short(tuning.config.strategy), **varying, **tried, **found, **state})
            if curve.at_the_end:
                notes.append(f"{name}: {chosen} is at the boundary of the tried values; extend the range")
        if novel := tuning.novel:
            best, count = novel.best, f"{len(novel.chosen.result.accuracies):,} novel tasks"
            others = f", the best of {len(novel.trials)}"
            if best is not novel.chosen:
                others = f"; the best, {best}: {_points(novel.lost)}"
            notes.append(f"{name}, {count}: {novel.chosen} (chosen): {_percent(novel.chosen.result)}{others}")
    title, right = "every value on the same tasks; 95 % intervals over tasks", ("tasks", "tried", "accuracy", "gain")
    session.console.show([tuning.as_dict() for tuning in tunings], rows, title=title, right=right)
    for note in notes:
        session.console.note(note)


def _percent(result: "Evaluation") -> str:
    """Return an accuracy in percent with its 95 % interval."""
    return f"{100 * result.accuracy:.2f} ± {100 * result.ci95:.2f} %"


def _points(difference: "Difference") -> str:
    """Return a difference in percentage points with its 95 % interval, marked if the interval contains 0."""
    chance = "" if difference.excludes_zero else ", not significant"
    return f"{100 * difference.mean:+.2f} ({100 * difference.low:+.2f} to {100 * difference.high:+.2f}{chance})"


@verb("compare", schema=EvaluateConfig)
def compare(
    settings: Settings = None,
    reference: Annotated[list[str] | None, typer.Option(help="The reference strategy; default: the first.")] = None,
    by_class: Annotated[bool, typer.Option("--by-class", help="Also show classes with large differences.")] = False,
    dry_run: DryRun = False,
    force: Force = False,
    json: Json = False,
) -> int:
    """Compare strategies with a reference on the same tasks.

    Task by task: the mean difference in percentage points with a paired bootstrap interval, and the share of tasks in
    which each strategy is better, equal or worse. Missing evaluations are run first. For three or more strategies all
    pairs are saved. With several seeds there are two intervals: over tasks, for the given trained networks, and over
    seeds (Student's t). The verdict is "better" or "worse" if every interval excludes 0.

    Examples:
      transduce compare experiment=quickstart reference=laplacianshot
      transduce compare strategy=simpleshot,laplacianshot weight=0.3,0.7 reference="laplacianshot weight=0.7"
      transduce compare strategy=simpleshot,slk_ms seed=0,1,2
    """
    configs = parse(EvaluateConfig, settings or [])
    given = [value.text for text in reference or () for value in values("reference", split(f"reference={text}")[1])]
    if len(given) > 1:
        raise InputError("reference= is given twice; it takes one strategy, with which the others are compared")
    from runs.stages import comparison
    from runs.tables import compared

    grouped = comparison.settings(configs, given[0] if given else None)
    session = Session(configs, as_json=json)
    if dry_run:
        return session.show_plan()
    results = session.run(force=force)
    if not session.failed:
        comparisons = [comparison.Comparison.of(setting, results) for setting in grouped]
        compared.show(comparisons, session.console, by_class=by_class)
        name = compared.file_name(settings or [], configs)
        compared.save(comparisons, name, session.store, session.console, by_class=by_class)
    return session.close()


@verb("tasks", schema=EvaluateConfig)
def tasks(settings: Settings = None) -> int:
    """Write the tasks of a config to a safetensors file.

    The file, named first, has the indices of the support and query images in the split, with their labels;
    sampler=file path=FILE evaluates on exactly these tasks.

    Examples:
      transduce tasks tasks.safetensors benchmark=glyphs shot=5 tasks=1000
    """
    file, keys = named(settings, "tasks", "NAME is the file to write, FILE.safetensors")
    default = [] if any(key.startswith("strategy=") for key in keys) else ["strategy=simpleshot"]
    config, path = one(parse(EvaluateConfig, [*keys, *default]), "tasks"), Path(file)
    from clustering.files.tensors import read_header
    from fsl.tasks import FORMAT
    from runs.cache import Store
    from runs.stages.given_features import given_bank
    from runs.stages.lineage import Lineage, labels_of
    from runs.stages.preflight import tasks_of
    from runs.storage.together import check_place

    check_place("file", path)
    if path.exists():
        read_header(path, "only task lists are overwritten; give another name", FORMAT)
    labels: Any
    if config.features is not None:
        labels = given_bank(config.feature_files, config.split, config.prompt)
    else:
        labels = labels_of(Lineage.of(config).part(config.split), Store(config.results), console())
    source = tasks_of(config, labels)
    drawn = source.first(config.count(source.limit))
    drawn.save(path)
    console().note(f"saved: {len(drawn):,} task{'s' if len(drawn) > 1 else ''} in {path}")
    return 0
