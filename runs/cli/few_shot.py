"""The few-shot verbs: quickstart, train, evaluate, tune, compare, tasks. Slow imports stand inside functions."""

import dataclasses
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustering.foundation.errors import InputError
from runs.cli.app import DryRun, Force, Json, Settings, console, named, one, verb
from runs.config.configs import EvaluateConfig, TrainConfig, TuneConfig, parse
from runs.config.overrides import spell, split, values

if TYPE_CHECKING:
    from runs.stages.results import Result

QUICKSTART = "quickstart"


@verb(
    "quickstart",
    "",
    "seed=0,1,2",
    "epochs=4 warmup=1 tasks=500     (half a minute, worse features)",
    schema=EvaluateConfig,
)
def quickstart(settings: Settings = None, dry_run: DryRun = False, force: Force = False, json: Json = False) -> int:
    """Train, evaluate and report on the embedded benchmark, in a few minutes.

    On two cores: train a small backbone on the base classes, extract features, evaluate strategies on 1-shot and 5-shot
    tasks, log every run to MLflow, and write a table, two figures and the report. Finished steps are reused.
    """
    configs = parse(EvaluateConfig, [f"experiment={QUICKSTART}", *(settings or [])])
    from runs.cli.session import Session

    session = Session(configs, as_json=json)
    if dry_run:
        return session.show_plan()
    results, said = session.run(force=force, all_or_nothing=True), session.console
    from runs.figures.quickstart import quickstart_figures
    from runs.report.site import build_report
    from runs.tables.evidence import look_up
    from runs.tables.grid import table_of
    from runs.tables.requested import show_table

    table = dataclasses.replace(look_up(table_of(QUICKSTART, configs), session.tracker), findings=())
    show_table(table, ["table", QUICKSTART], session.store, said)
    for path in quickstart_figures(table, results, session.store, QUICKSTART):
        said.note(f"saved: {path}.pdf, .svg and .png")
    page = build_report(session.store, session.tracker, experiments={QUICKSTART: configs}, say=said.note)
    said.note(f"report: {page.as_uri()}")
    # If the command is not on the path, show it as it was called: make calls the one in .venv.
    here = Path(sys.argv[0]).name == "transduce" and not shutil.which("transduce")
    said.note(f"to compare the runs in MLflow: {sys.argv[0] if here else 'transduce'} ui")
    return 0


@verb(
    "train",
    "",
    "benchmark=omniglot root=FOLDER backbone=conv4",
    "benchmark=glyphs epochs=5 seed=0,1,2",
    "benchmark=mini root=FOLDER backbone=conv4 checkpoint=model_best.pth.tar",
    "backbone=./mynet.py:TinyNet trainer.precision=bf16-mixed callbacks.early_stopping.patience=10",
    "backbone=resnet18 --dry-run",
    schema=TrainConfig,
)
def train(settings: Settings = None, dry_run: DryRun = False, force: Force = False, json: Json = False) -> int:
    """Train a backbone on the base classes of a benchmark.

    The weights with the best nearest-prototype accuracy on the validation classes are stored. Finished trainings are
    reused; the same command resumes an interrupted one after its last finished epoch. checkpoint=FILE takes the weights
    of a file, written by any program, and pretrained= published weights; neither trains.
    """
    configs = parse(TrainConfig, settings or [])
    if any(config.features is not None for config in configs):
        raise InputError("features= needs no training; use it with transduce evaluate or transduce tune")
    from runs.cli.session import Session
    from runs.stages.checkpoints import CHECKPOINT

    session = Session(configs, as_json=json)
    if dry_run:
        return session.show_plan()
    facts, rows = [], []
    for config, entry in zip(configs, session.run(force=force), strict=True):
        file, found = str(entry.path / CHECKPOINT), entry.metrics
        known = {"checkpoint": file, "key": entry.key, "run": entry.run, "reused": entry.reused}
        facts.append({"config": config.as_json(), **known, **found})
        best, epochs = found.get("best_validation_accuracy"), found.get("epochs")
        rows.append(
            {
                "training": f"{config.benchmark.name}/{config.backbone.name}",
                **session.varying(config),
                "validation accuracy": "" if best is None else f"{100 * best:.2f} %",
                "epochs": "" if epochs is None else f"{epochs:.0f}",
                "": "reused" if entry.reused else "new",
                "checkpoint": file,
            }
        )
    session.console.show(facts, rows, right=("validation accuracy", "epochs"))
    return session.close()


@verb(
    "evaluate",
    "",
    "shot=1,5 strategy=simpleshot,laplacianshot",
    "strategy=laplacianshot weight=0.1,0.3,1 split=validation",
    "strategy=laplacianshot,slk_ms shot=1,5 tuning=papers",
    "benchmark=mini root=FOLDER checkpoint=model_best.pth.tar shot=1,5",
    "benchmark=mini root=FOLDER backbone=timm:resnet50 pretrained=true",
    "features=output.plk strategy=simpleshot,laplacianshot shot=1,5",
    "strategy=laplacianshot --help            (the fields of that strategy)",
    "strategy=mypackage.mymodule:MyStrategy   (a strategy of your own)",
    schema=EvaluateConfig,
)
def evaluate(settings: Settings = None, dry_run: DryRun = False, force: Force = False, json: Json = False) -> int:
    """Evaluate strategies on few-shot tasks; train first if needed.

    The tasks are drawn from the novel classes of a benchmark; every strategy gets the same ones. Shows the mean
    accuracy with its 95 % interval over tasks. If no checkpoint matches, the backbone is trained; checkpoint=FILE takes
    the weights from a file, pretrained=true timm's weights, features=FILE the features. Finished evaluations are
    reused.
    """
    configs = parse(EvaluateConfig, settings or [])
    from runs.cli.session import Session
    from runs.stages.lineage import short
    from runs.stages.results import in_common

    session = Session(configs, as_json=json)
    if dry_run:
        return session.show_plan()
    results: list[Result] = session.run(force=force)
    rows = [
        {
            "strategy": short(result.config.strategy),
            **session.varying(result.config, leave_out=("strategy",)),
            **({} if result.tuned is None else {"tuned": spell(result.tuned.values)}),
            **(scores := _scores(result)),
            "ms/task": f"{1000 * result.seconds_per_task:.3g}",
            "": "reused" if result.reused else "new",
        }
        for result in results
    ]
    units = " or ".join(sorted({result.units for result in results}, reverse=True))
    title = f"{in_common(results)}, 95 % interval over {units}"
    session.console.show([_facts(result) for result in results], rows, title=title, right=(*scores, "ms/task"))
    return session.close()


def _facts(result: "Result") -> dict[str, Any]:
    """Return an evaluation as a dictionary for JSON."""
    tuned = result.tuned
    return {
        "config": result.settled.as_json(),
        **({} if tuned is None else {"tuning": {"key": tuned.key, "run": tuned.run_id, "chosen": dict(tuned.values)}}),
        **result.metrics(),
        "interval": f"over {result.units}",
        "tasks": len(result.accuracies),
        "key": result.key,
        "run": result.run_id,
        "reused": result.reused,
    }


def _scores(result: "Result") -> dict[str, str]:
    """Return the scores in percent; for a single task, with the mean over classes (Table 4.3, "Per Class")."""
    scores = {"accuracy": f"{100 * result.accuracy:.2f} ± {100 * result.ci95:.2f} %"}
    if result.units == "queries":
        scores["per class"] = f"{100 * result.classes.mean:.2f} ± {100 * result.classes.half_width:.2f} %"
    audits = {f"audit: {name.replace('_', ' ')}": accuracies for name, accuracies in result.audits.items()}
    return scores | {name: f"{100 * accuracies.mean():.2f} %" for name, accuracies in audits.items()}


@verb(
    "tune",
    "strategy=laplacianshot,slk_ms shot=1,5",
    "strategy=laplacianshot novel_tasks=10000     (then compare the choice with the best on novel classes)",
    "strategy=tim_adm temperature=5,15,30",
    "strategy=laplacianshot tuning=mine.yaml --dry-run",
    schema=TuneConfig,
)
def tune(settings: Settings = None, dry_run: DryRun = False, force: Force = False, json: Json = False) -> int:
    """Choose a strategy's parameters on base and validation classes.

    Separately for each sampler, benchmark, backbone and seed. All values are tried on the same tasks, and the novel
    classes cannot be read. The protocol tuning= lists the steps and values; several values of a field replace the
    protocol's. transduce evaluate with the same keys uses the chosen values.
    """
    asked = parse(TuneConfig, settings or [])
    configs = [config for config in asked if config.strategy.grids]
    without = ", ".join(dict.fromkeys(config.strategy.name for config in asked if not config.strategy.grids))
    if not configs:
        raise InputError(
            f"tuning={asked[0].tuning} has no values for {without}; give values, as in temperature=5,15,30, or "
            "your own protocol, tuning=FILE.yaml"
        )
    from runs.cli.session import Session
    from runs.stages.lineage import evaluate_name, short
    from runs.tables import tuned

    session = Session(configs, as_json=json)
    said = session.console
    if without:
        said.note(f"nothing to tune for {without}; it is skipped")
    if dry_run:
        return session.show_plan()
    tunings = session.run(force=force)
    rows = [
        {
            "strategy": short(tuning.config.strategy),
            **session.varying(tuning.config, leave_out=("strategy",)),
            **tuned.row(tuning, curve),
        }
        for tuning in tunings
        for curve in tuning.curves
    ]
    title = "every value on the same tasks; 95 % intervals over tasks"
    said.show(list(map(tuned.as_json, tunings)), rows, title=title, right=("tasks", "tried", "accuracy", "gain"))
    for tuning in tunings:
        for curve in (curve for curve in tuning.curves if curve.at_the_end):
            name = evaluate_name(tuning.config)
            said.note(f"{name}: {curve.chosen} is at the boundary of the tried values; extend the range")
        if tuning.novel:
            said.note(tuned.statement(tuning, tuning.novel))
        said.note(f"saved: {tuning.picture}")
    return session.close()


@verb(
    "compare",
    "strategy=simpleshot,laplacianshot,slk_ms shot=1,5",
    "experiment=quickstart reference=laplacianshot",
    'strategy=simpleshot,laplacianshot weight=0.3,0.7 reference="laplacianshot weight=0.7"',
    "strategy=simpleshot,slk_ms seed=0,1,2",
    schema=EvaluateConfig,
)
def compare(
    settings: Settings = None,
    reference: Annotated[list[str] | None, typer.Option(help="The reference strategy; default: the first.")] = None,
    by_class: Annotated[bool, typer.Option(help="Also show classes with the largest differences.")] = False,
    dry_run: DryRun = False,
    force: Force = False,
    json: Json = False,
) -> int:
    """Compare strategies with a reference on the same tasks.

    Task by task: the mean difference in percentage points with a paired bootstrap interval, and the share of tasks in
    which each strategy is better, equal or worse. Missing evaluations are run first. For three or more strategies all
    pairs are saved. With several seeds there are two intervals: over tasks, for the given trained networks, and over
    seeds (Student's t). The verdict is "better" or "worse" if every interval excludes 0.
    """
    configs = parse(EvaluateConfig, settings or [])
    from runs.cli.session import Session
    from runs.stages import comparison
    from runs.tables import compared

    grouped = comparison.settings(configs, _reference(reference or []))
    session = Session(configs, as_json=json)
    if dry_run:
        return session.show_plan()
    results = session.run(force=force, all_or_nothing=True)
    comparisons = [comparison.Comparison.of(setting, results) for setting in grouped]
    compared.show(comparisons, session.console, by_class=by_class)
    name = compared.file_name(settings or [], configs)
    compared.save(comparisons, name, session.store, session.console, by_class=by_class)
    return session.close()


def _reference(texts: Sequence[str]) -> str | None:
    given = [value.text for text in texts for value in values("reference", split(f"reference={text}")[1])]
    if len(texts) > 1 or len(given) > 1:
        raise InputError("reference= is given twice; it takes one strategy, with which the others are compared")
    return given[0] if given else None


@verb("tasks", "tasks.safetensors benchmark=glyphs shot=5 tasks=1000", schema=EvaluateConfig)
def tasks(settings: Settings = None) -> int:
    """Write the tasks of a config to a safetensors file.

    The file, named first, has the indices of the support and query images in the split, with their labels;
    sampler=file path=FILE evaluates on exactly these tasks.
    """
    file, keys = named(settings, "give the file to write: transduce tasks FILE.safetensors [key=value ...]")
    default = [] if any(key.startswith("strategy=") for key in keys) else ["strategy=simpleshot"]
    config = one(parse(EvaluateConfig, [*keys, *default]), "tasks")
    from runs.cache import Store
    from runs.stages.given_features import given_bank
    from runs.stages.lineage import Lineage, labels_of
    from runs.stages.preflight import tasks_of

    said, path = console(), Path(file)
    _check_place(path)
    if config.features is not None:
        source = tasks_of(config, given_bank(config.feature_files, config.split, config.prompt))
    else:
        part = Lineage.of(config).part(config.split)
        source = tasks_of(config, labels_of(part, Store(config.results), said))
    drawn = source.first(config.count(source.limit))
    drawn.save(path)
    said.note(f"saved: {len(drawn):,} task{'s' if len(drawn) > 1 else ''} in {path}")
    return 0


def _check_place(path: Path) -> None:
    """Raise InputError if the file cannot be created, or would overwrite anything but a task list."""
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: its folder does not exist; create it, or give another path")
    if os.path.lexists(path):
        from clustering.files.tensor_headers import read_header
        from fsl.tasks import FORMAT

        if not path.is_file():
            raise InputError(f"{path} is not a file; give another path")
        read_header(path, "only task lists are overwritten; give another name", FORMAT)
