"""The few-shot verbs: train, evaluate, tune, compare, tasks, quickstart. Slow imports stand inside functions."""

import dataclasses
import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustering.foundation.errors import InputError
from runs.cli.app import DryRun, Force, Json, Settings, app, console, examples, takes
from runs.config.configs import EvaluateConfig, TrainConfig, TuneConfig, parse
from runs.config.overrides import spell, values
from runs.console.output import Console

if TYPE_CHECKING:
    from runs.cache import Store
    from runs.stages.comparison import Comparison
    from runs.stages.results import Result

QUICKSTART = "quickstart"


@app.command(
    cls=takes(EvaluateConfig),
    epilog=examples("quickstart", "", "seed=0,1,2", "epochs=4 warmup=1 tasks=500     (half a minute, worse features)"),
)
def quickstart(settings: Settings = None, dry_run: DryRun = False, force: Force = False, json: Json = False) -> int:
    """Train, evaluate and report on the embedded benchmark, in a few minutes.

    On two cores: train a small backbone on the base classes, extract features, evaluate strategies on 1-shot and 5-shot
    tasks, log every run to MLflow, and write a table, two figures and the report. Finished steps are reused.
    """
    configs = parse(EvaluateConfig, [f"experiment={QUICKSTART}", *(settings or [])])
    from runs.cli.session import Session
    from runs.tables.evidence import look_up
    from runs.tables.grid import table_of

    session = Session(configs, console(as_json=json))
    if dry_run:
        return session.show_plan()
    results = session.evaluation(configs, force=force)

    from runs.cli.results import show_table
    from runs.figures.quickstart import quickstart_figures
    from runs.report.site import build_report

    said = session.console
    table = dataclasses.replace(look_up(table_of(QUICKSTART, configs), session.tracker), findings=())
    show_table(table, ["table", QUICKSTART], session.store, said)
    for path in quickstart_figures(table, results, session.store, QUICKSTART):
        said.note(f"saved: {path}.pdf, .svg and .png")
    page = build_report(session.store, session.tracker, experiments={QUICKSTART: configs}, say=said.note)
    said.note(f"report: {page.as_uri()}")
    # If the command is not on the path, show it as it was called: make calls the one in .venv.
    called = Path(sys.argv[0])
    command = called if called.name == "transduce" and not shutil.which("transduce") else "transduce"
    said.note(f"to compare the runs in MLflow: {command} ui")
    return 0


@app.command(
    cls=takes(TrainConfig),
    epilog=examples(
        "train",
        "",
        "benchmark=omniglot root=FOLDER backbone=conv4",
        "benchmark=glyphs epochs=5 seed=0,1,2",
        "benchmark=mini root=FOLDER backbone=conv4 checkpoint=model_best.pth.tar",
        "backbone=./mynet.py:TinyNet trainer.precision=bf16-mixed callbacks.early_stopping.patience=10",
        "backbone=resnet18 --dry-run",
    ),
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

    session = Session(configs, console(as_json=json))
    if dry_run:
        return session.show_plan()
    found = [session.checkpoint(config, force=force) for config in configs]
    if json:
        session.console.json(
            [
                {
                    "config": config.as_json(),
                    "checkpoint": str(entry.path / CHECKPOINT),
                    "key": entry.key,
                    "run": entry.run,
                    "reused": entry.reused,
                    **entry.metrics,
                }
                for config, entry in zip(configs, found, strict=True)
            ]
        )
    else:
        rows = [
            {
                "training": f"{config.benchmark.name}/{config.backbone.name}",
                **session.varying(config),
                "validation accuracy": _percent(entry.metrics.get("best_validation_accuracy")),
                "epochs": f"{entry.metrics['epochs']:.0f}" if "epochs" in entry.metrics else "",
                "": "reused" if entry.reused else "new",
                "checkpoint": str(entry.path / CHECKPOINT),
            }
            for config, entry in zip(configs, found, strict=True)
        ]
        session.console.table(rows, right=("validation accuracy", "epochs"))
    return session.close()


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f} %"


@app.command(
    cls=takes(EvaluateConfig),
    epilog=examples(
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
    ),
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

    session = Session(configs, console(as_json=json))
    if dry_run:
        return session.show_plan()
    results = session.evaluation(configs, force=force)
    if json:
        session.console.json([_evaluated(result) for result in results])
        return session.close()
    rows = [
        {
            "strategy": short(result.config.strategy),
            **session.varying(result.config, leave_out=("strategy",)),
            **({} if result.tuned is None else {"tuned": spell(result.tuned.values)}),
            **_scores(result),
            "ms/task": f"{1000 * result.seconds_per_task:.3g}",
            "": "reused" if result.reused else "new",
        }
        for result in results
    ]
    units = sorted({result.units for result in results}, reverse=True)
    title = f"{in_common(results)}, 95 % interval over {' or '.join(units)}"
    right = ("accuracy", "per class", *map(_audited, configs[0].audit), "ms/task")
    session.console.table(rows, title=title, right=right)
    return session.close()


def _evaluated(result: "Result") -> dict[str, Any]:
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
    return scores | {_audited(name): f"{100 * values.mean():.2f} %" for name, values in result.audits.items()}


def _audited(name: str) -> str:
    return f"audit: {name.replace('_', ' ')}"


@app.command(
    cls=takes(TuneConfig),
    epilog=examples(
        "tune",
        "strategy=laplacianshot,slk_ms shot=1,5",
        "strategy=laplacianshot novel_tasks=10000     (then compare the choice with the best on novel classes)",
        "strategy=tim_adm temperature=5,15,30",
        "strategy=laplacianshot tuning=mine.yaml --dry-run",
    ),
)
def tune(settings: Settings = None, dry_run: DryRun = False, force: Force = False, json: Json = False) -> int:
    """Choose a strategy's parameters on base and validation classes.

    Separately for each sampler, benchmark, backbone and seed. All values are tried on the same tasks, and the novel
    classes cannot be read. The protocol tuning= lists the steps and values; several values of a field replace the
    protocol's. transduce evaluate with the same keys uses the chosen values.
    """
    said = console(as_json=json)
    configs = _tunable(parse(TuneConfig, settings or []), said)
    from runs.cli.session import Session
    from runs.stages.lineage import evaluate_name, short
    from runs.tables import tuned

    session = Session(configs, said)
    if dry_run:
        return session.show_plan()
    tunings = [session.tuning(config, force=force) for config in configs]
    if json:
        said.json([tuned.as_json(tuning) for tuning in tunings])
    else:
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
        said.table(rows, title=title, right=("tasks", "tried", "accuracy", "gain"))
    for tuning in tunings:
        name = evaluate_name(tuning.config)
        for curve in (curve for curve in tuning.curves if curve.at_the_end):
            said.note(f"{name}: {curve.chosen} is at the boundary of the tried values; extend the range")
        if tuning.novel:
            said.note(tuned.statement(tuning, tuning.novel))
        said.note(f"saved: {tuning.picture}")
    return session.close()


def _tunable(configs: Sequence[TuneConfig], said: Console) -> list[TuneConfig]:
    """Return the configs of strategies with values to try.

    Raises:
        InputError: no strategy has values to try.
    """
    from runs.stages.lineage import short

    without = dict.fromkeys(short(config.strategy) for config in configs if not config.strategy.grids)
    if len(without) == len({short(config.strategy) for config in configs}):
        raise InputError(
            f"tuning={configs[0].tuning} has no values for {', '.join(without)}; give values, as in "
            "temperature=5,15,30, or your own protocol, tuning=FILE.yaml"
        )
    for strategy in without:
        said.note(f"nothing to tune for {strategy}; it is skipped")
    return [config for config in configs if config.strategy.grids]


@app.command(
    cls=takes(EvaluateConfig),
    epilog=examples(
        "compare",
        "strategy=simpleshot,laplacianshot,slk_ms shot=1,5",
        "experiment=quickstart reference=laplacianshot",
        'strategy=simpleshot,laplacianshot weight=0.3,0.7 reference="laplacianshot weight=0.7"',
        "strategy=simpleshot,slk_ms seed=0,1,2",
    ),
)
def compare(
    settings: Settings = None,
    reference: Annotated[str | None, typer.Option(help="The reference strategy; default: the first.")] = None,
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Also show classes with the largest differences.")
    ] = False,
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

    grouped = comparison.settings(configs, _reference(reference))
    session = Session(configs, console(as_json=json))
    if dry_run:
        return session.show_plan()
    results = session.evaluation(configs, force=force)
    comparisons = [comparison.Comparison.of(setting, results) for setting in grouped]
    _show(comparisons, session.console, by_class=by_class)
    _save(comparisons, _name(settings or [], configs), session.store, session.console, by_class=by_class)
    return session.close()


def _reference(text: str | None) -> str | None:
    if text is None:
        return None
    given = values("reference", text)
    if len(given) > 1:
        raise InputError("reference= takes one strategy, not several; the others are compared with it")
    return given[0].text


def _show(comparisons: "Sequence[Comparison]", said: Console, *, by_class: bool) -> None:
    from runs.tables import differences

    if said.as_json:
        said.json(
            [
                differences.as_json(comparison)
                | ({"classes": differences.class_records(comparison)} if by_class else {})
                for comparison in comparisons
            ]
        )
        return
    for comparison in comparisons:
        said.table(differences.rows(comparison), title=differences.title(comparison), right=differences.RIGHT)
        if by_class:
            said.table(
                differences.class_rows(comparison),
                title="classes with the largest gains and losses; classes are small, so some differ by chance",
                right=("queries", comparison.setting.strategies[comparison.setting.reference], *differences.RIGHT),
            )


def _save(comparisons: "Sequence[Comparison]", name: str, store: "Store", said: Console, *, by_class: bool) -> None:
    from runs.figures.differences import differences_figure
    from runs.figures.style import save
    from runs.storage.disk import write_text
    from runs.tables import differences

    with store.watched():
        store.tables.mkdir(parents=True, exist_ok=True)
        write_text(store.tables / f"{name}.md", differences.markdown(comparisons))
        write_text(store.tables / f"{name}.csv", differences.as_csv(comparisons))
        if by_class:
            write_text(store.tables / f"{name}-classes.csv", differences.classes_as_csv(comparisons))
        save(differences_figure(comparisons), store.tables / f"{name}.png")
    said.note(f"saved: {store.tables / name}.md, .csv{', -classes.csv' if by_class else ''} and .png")


def _name(settings: Sequence[str], configs: Sequence[EvaluateConfig]) -> str:
    """Return the stem of the file names: the experiment, otherwise the benchmark and a hash of the configs."""
    from runs.stages.lineage import short

    experiments = [setting.partition("=")[2].strip() for setting in settings if setting.startswith("experiment=")]
    if experiments:
        return f"compare-{Path(experiments[0]).stem}"
    keys = "\n".join(sorted(" ".join(config.arguments()) for config in configs))
    return f"compare-{short(configs[0].benchmark)}-{hashlib.sha256(keys.encode()).hexdigest()[:8]}"


@app.command(
    cls=takes(EvaluateConfig),
    epilog=examples("tasks", "tasks.safetensors benchmark=glyphs shot=5 tasks=1000"),
)
def tasks(settings: Settings = None) -> int:
    """Write the tasks of a config to a safetensors file.

    The file, named first, has the indices of the support and query images in the split, with their labels;
    sampler=file path=FILE evaluates on exactly these tasks.
    """
    words = settings or []
    files = [setting for setting in words if "=" not in setting]
    if len(files) != 1:
        raise InputError("give the file to write: transduce tasks FILE.safetensors [key=value ...]")
    keys = [setting for setting in words if "=" in setting]
    default = ["strategy=simpleshot"] if not any(key.startswith("strategy=") for key in keys) else []
    configs = parse(EvaluateConfig, [*keys, *default])
    if len(configs) > 1:
        raise InputError("tasks takes one config; give each key one value")

    from runs.cache import Store
    from runs.stages.given_features import given_bank
    from runs.stages.lineage import Lineage, labels_of
    from runs.stages.preflight import tasks_of

    said, config, path = console(), configs[0], Path(files[0])
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
