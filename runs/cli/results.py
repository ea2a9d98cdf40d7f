"""The verbs that show and move results: table, figure, record, report, list, config, ui."""

import textwrap
from collections.abc import Sequence
from shlex import join as command
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustering.foundation.errors import InputError, unknown
from runs.cli.app import (
    WIDTH,
    DryRun,
    Force,
    Json,
    NoBrowser,
    Results,
    RunMissing,
    Settings,
    Verb,
    Yes,
    app,
    console,
    examples,
    open_browser,
)
from runs.config.base import to_yaml
from runs.config.configs import (
    SCHEMAS,
    ClusterConfig,
    EvaluateConfig,
    FairConfig,
    TuneConfig,
    parse,
)
from runs.config.groups import names

if TYPE_CHECKING:
    from runs.cli.session import Session
    from runs.figures.drawing import AnyDrawing

LimitMinutes = Annotated[float | None, typer.Option(help="Start no job after this number of minutes.")]
WARNINGS = 5  # warnings about single runs that `report` prints; the others are counted
LISTS = ("claims", "reasons")  # counts that are shown as JSON only


@app.command(
    epilog=examples(
        "table",
        "quickstart",
        "all_strategies tasks=1000 --run-missing -y",
        "thesis/4.1 mini.root=FOLDER",
        "thesis/4.4@glyphs --run-missing --limit-minutes 30",
    )
)
def table(
    settings: Settings = None,
    run_missing: RunMissing = False,
    yes: Yes = False,
    limit_minutes: LimitMinutes = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Show the table of an experiment or a paper from the tracked runs.

    transduce table NAME [key=value ...] shows means over seeds, and checks the papers' claims on the same runs. NAME is
    an experiment (transduce list experiments), a YAML file of one, or a paper's table (transduce list tables), which
    shows the printed values beside the measured ones with a verdict for each cell. thesis/4.4@glyphs is that table on
    another benchmark with a small backbone. A key replaces a value of the table, as in tasks=2000; mini.root=FOLDER
    sets the folder of one benchmark's images. A run fills a cell only if all its keys match. Missing runs are started
    with --run-missing only, several at once: parallel.n_jobs=4, parallel.backend=dask or submitit.
    """
    name, keys = _named(settings, "table", names("experiment"), "experiments, and transduce list tables")
    from runs.parallel import Parallel

    parallel, keys = Parallel.of(keys)
    if not run_missing and (limit_minutes is not None or parallel != Parallel()):
        raise InputError("parallel.* and --limit-minutes only apply to missing runs; add --run-missing")
    from runs.tables.requested import planned, results_of, show_table, table_named

    shown = table_named(name, keys)
    from runs.cli.missing import run_missing as start_missing
    from runs.cli.session import Session
    from runs.tables.evidence import look_up

    said = console(as_json=json)
    session = Session(shown.configs, said, results=results_of(shown, keys))
    if dry_run:
        return Session(planned(shown, name, keys, said), said).show_plan()
    code = 0
    if run_missing:
        code = start_missing(shown.configs, session, parallel, yes=yes, limit_minutes=limit_minutes)
    shown = look_up(shown, session.tracker)
    show_table(shown, ["table", name, *keys, "--run-missing"], session.store, said)
    return code


def _named(settings: Sequence[str] | None, verb: str, known: Sequence[str], others: str) -> tuple[str, list[str]]:
    """Return the name that a verb takes, and the settings."""
    words = [word for word in settings or () if "=" not in word]
    if len(words) != 1:
        raise InputError(
            f"give the name of one {verb}: transduce {verb} NAME; names are {', '.join(known)}; see {others}"
        )
    return words[0], [setting for setting in settings or () if "=" in setting]


@app.command(
    epilog=examples(
        "figure",
        "thesis/4.1@glyphs tasks=500 --run-missing -y",
        "thesis/2.1 root=FOLDER --run-missing -y",
        "thesis/2.2@digits --run-missing -y",
        "thesis/4.2@mini root=FOLDER checkpoint=model_best.pth.tar --run-missing -y",
    )
)
def figure(
    settings: Settings = None,
    run_missing: RunMissing = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Force = False,
    json: Json = False,
) -> int:
    """Draw a figure of the papers from the tracked runs.

    transduce figure NAME[@BENCHMARK] [key=value ...] saves it as PDF, SVG and PNG with its caption, and logs it to
    MLflow with the runs it shows; transduce list figures shows the names. NAME@BENCHMARK draws it on another benchmark
    with the backbone conv4; a figure of clustering takes NAME@DATASET. A key replaces the paper's value, as in
    tasks=500; root=FOLDER is the folder of the data. Missing runs are started with --run-missing only.
    """
    from runs.figures.papers import DRAWN, OWN, drawing

    name, typed = _named(settings, "figure", [*DRAWN, *OWN], "transduce list figures")
    number, at, benchmark = name.partition("@")
    if at and not benchmark:
        raise InputError(f"{name}: no benchmark after @; write {number}, or {number}@BENCHMARK")
    said = console(as_json=json)
    drawn = drawing(number)
    configs = drawn.configs(name, benchmark, typed, said.note)
    from runs.cli.session import Session

    session = Session(configs, said)
    if dry_run:
        return session.show_plan()
    failures = _make(drawn, configs, session, yes=yes) if run_missing else []
    results = _read(drawn, configs, session)
    advice = command(["transduce", "figure", *(settings or ()), "--run-missing"])
    if not results:
        raise failures[0] if failures else InputError(f"the record has no run for this figure; start them: {advice}")
    if len(results) < len(configs):
        said.note(f"to start the missing runs: {advice}")
    from runs.figures.logged import logged_figure

    found = logged_figure(name, drawn, results, session.store, session.tracker, say=said.note, force=force)
    if json:
        said.json(vars(found) | {"files": [str(path) for path in found.files]})
    else:
        said.write(textwrap.fill(found.caption, WIDTH))
    said.note(f"{'reused' if found.reused else 'saved'}: {found.files[0].with_suffix('')}.pdf, .svg and .png")
    session.close()
    if failures:
        raise failures[0]
    return 0


def _make(drawing: "AnyDrawing", configs: Sequence[Any], session: "Session", *, yes: bool) -> list[Exception]:
    """Run the configs without a complete result, after confirmation, and return the errors of failed runs."""
    from runs.cli.missing import agreed
    from runs.storage.locks import silent

    missing = [config for config in configs if drawing.read(config, session.tracker, silent) is None]
    if not missing:
        return []
    said = session.console
    for line in str(session.plan(missing)).splitlines():
        said.note(line)
    if not agreed(said, yes=yes):
        return []
    failures: list[Exception] = []
    for config in missing:
        try:
            failures += session.run(config)
        except Exception as error:
            said.error(f"failed: {_name(config)}: {error}")
            failures.append(error)
    return failures


def _name(config: EvaluateConfig | TuneConfig | ClusterConfig | FairConfig) -> str:
    from runs.stages.lineage import cluster_name, evaluate_name

    return cluster_name(config) if isinstance(config, (ClusterConfig, FairConfig)) else evaluate_name(config)


def _read(drawing: "AnyDrawing", configs: Sequence[Any], session: "Session") -> list[Any]:
    """Return the recorded results of the configs, and report the configs without one."""
    results = []
    for config in configs:
        result = drawing.read(config, session.tracker, session.console.note)
        if result is None:
            session.console.note(f"not run, or incomplete: {_name(config)}")
        else:
            results.append(result)
    return results


@app.command(cls=Verb, epilog=examples("report", "", "--open", "--counts"))
def report(
    results: Results = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the site in a browser.")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Print the numbers of cells by verdict, no site.")] = False,
    json: Json = False,
) -> int:
    """Write all tracked runs as a static site.

    The tables of each paper with the printed values beside those of the shipped runs and of your own, each method with
    its results, and for every number a link to its run, in the folder report/ of the results. --counts prints how many
    cells of the papers' tables have a printed number, shipped runs and runs of your own, and each verdict; with --json
    also for each table.
    """
    if results == "":
        raise InputError("results= is empty; give a folder, or omit it")
    if json and not counts:
        raise InputError("--json prints the counts; add --counts, or omit --json for the site")
    if open_page and counts:
        raise InputError("--counts writes no site to open; omit --open or --counts")
    from runs.cache import Store
    from runs.report.site import build_report
    from runs.tables.counts import all_counts
    from runs.track import Tracker

    said, store = console(as_json=json), Store(results)
    warnings: list[str] = []  # many runs may have lost their files
    tracker = Tracker(store, say=warnings.append)
    if counts:
        by_work, by_table = all_counts(tracker)
        if json:
            said.json({"works": by_work, "tables": by_table})
            return 0
        rows = [{key: str(value or "") for key, value in row.items() if key not in LISTS} for row in by_work]
        said.table(rows, title="cells of the papers' tables, by verdict", right=list(rows[0])[1:])
        return 0
    page = build_report(store, tracker, say=said.note).as_uri()
    for warning in warnings[:WARNINGS]:
        said.note(warning)
    if len(warnings) > WARNINGS:
        said.note(f"and {len(warnings) - WARNINGS:,} more such warnings")
    said.write(page)
    if open_page:
        open_browser(page, said.note)
    return 0


@app.command("list", epilog=examples("list", "", "tables", "strategies --json"))
def list_options(
    kinds: Annotated[list[str] | None, typer.Argument(metavar="[KIND]...", show_default=False)] = None,
    json: Json = False,
) -> int:
    """List the available strategies, benchmarks, methods, datasets, tables and more."""
    from runs.cli.listing import KINDS

    chosen = []
    for name in kinds or KINDS:
        if "=" in name:
            raise InputError(f"{name!r}: list takes names only, as in `transduce list tables`")
        if name not in KINDS and not (fits := [kind for kind in KINDS if kind in (f"{name}s", f"{name[:-1]}ies")]):
            raise unknown("kind", name, KINDS)
        chosen.append(name if name in KINDS else fits[0])
    listings = {kind: KINDS[kind]() for kind in chosen}
    said = console(as_json=json)
    if json:
        said.json(listings)
        return 0
    words = {True: "yes", False: "no", None: "?"}
    for kind, rows in listings.items():
        spelt = [{k: words[v] if v is None or isinstance(v, bool) else str(v) for k, v in row.items()} for row in rows]
        if rows:
            said.table(spelt, title=kind, right=("cells", "runnable", "quoted"))
        else:
            said.write(f"{kind}: none\n")
    return 0


@app.command(
    "config",
    epilog=examples("config", "evaluate strategy=laplacianshot shot=1,5 > mine.yaml", "train training.epochs=5"),
)
def show_config(settings: Settings = None) -> int:
    """Print the resolved settings of a verb as YAML.

    transduce config VERB [key=value ...]. OmegaConf.load reads the file, and transduce VERB experiment=FILE.yaml
    repeats the run. Several configs differ in the settings below each.
    """
    verb, *words = settings or [""]
    if verb not in SCHEMAS:
        raise unknown("verb", verb, SCHEMAS) if verb else InputError(f"name a verb: {', '.join(SCHEMAS)}")
    console().write(to_yaml(parse(SCHEMAS[verb], words)))
    return 0


@app.command(cls=Verb, epilog=examples("ui", "", "port=5001"))
def ui(
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 admits other machines, without a password.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.")] = 5000,
    no_browser: NoBrowser = False,
    results: Results = None,
) -> int:
    """Open the MLflow UI on the tracked runs, at the experiment with the newest result. Ctrl-C stops the server."""
    from runs.cache import Store
    from runs.record.server import serve

    serve(Store(results), host=host, port=port, browse=not no_browser, say=console().error)
    return 0
