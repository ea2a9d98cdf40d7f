"""The verbs that show results and options: table, figure, report, ui, list, config."""

import math
import shlex
import textwrap
import webbrowser
from typing import Annotated

import typer

from clustering.foundation.errors import InputError, unknown
from runs.cli.app import WIDTH, DryRun, Force, Json, NoBrowser, Results, RunMissing, Settings, Yes, console, named, verb
from runs.cli.session import Session
from runs.config.base import to_yaml
from runs.config.configs import SCHEMAS, parse
from runs.config.groups import names

LimitMinutes = Annotated[float | None, typer.Option(help="Start no job after this number of minutes.")]
LISTS = ("claims", "reasons")  # counts that are shown as JSON only
SAID = {True: "yes", False: "no", None: "?"}


@verb("table")
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
    shows the printed values beside the measured ones with a verdict for each cell. A key replaces a value of the table,
    as in tasks=2000. A run fills a cell only if all its keys match. Missing runs are started with --run-missing only,
    several at once: parallel.n_jobs=4, parallel.backend=dask or submitit.

    Examples:
      transduce table all_strategies tasks=1000 --run-missing -y
      transduce table thesis/4.1 mini.root=FOLDER                              (the folder of one benchmark's images)
      transduce table thesis/4.4@glyphs --run-missing --limit-minutes 30       (on another benchmark)
    """
    name, keys = named(
        settings, "table", f"NAME is {', '.join(names('experiment'))}, FILE.yaml, or of transduce list tables"
    )
    from runs.parallel import Parallel

    parallel, keys = Parallel.of(keys)
    if not run_missing and (limit_minutes is not None or parallel != Parallel()):
        raise InputError("parallel.* and --limit-minutes only apply to missing runs; add --run-missing")
    from runs.tables.paper import lacking_folders
    from runs.tables.requested import planned, results_of, show_table, table_named

    shown = table_named(name, keys)
    from runs.tables.evidence import look_up

    changed = any(not key.startswith("results=") for key in keys)  # classes of a table as it is need no check
    checked = shown.configs if changed or run_missing or dry_run else ()
    session, code = Session(checked, as_json=json, results=results_of(shown, keys)), 0
    if dry_run:
        return Session(planned(shown, name, keys, session.console), as_json=json).show_plan()
    if run_missing:  # cells whose data is not at hand are shown with what they need; alone they are an error
        able = [config for config in shown.configs if not lacking_folders(config)] or shown.configs
        code = session.run_missing(able, parallel, yes, math.inf if limit_minutes is None else limit_minutes)
    shown = look_up(shown, session.tracker)
    show_table(shown, ["table", name, *keys, "--run-missing"], session.store, session.console)
    return code


@verb("figure")
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
    with the backbone conv4; a figure of clustering takes NAME@DATASET. A key replaces the paper's value; root=FOLDER is
    the folder of the data. Missing runs are started with --run-missing only.

    Examples:
      transduce figure thesis/2.1 root=FOLDER --run-missing -y
      transduce figure thesis/4.1@glyphs novel_tasks=500 --run-missing -y
    """
    from runs.figures.papers import drawing, entries

    name, typed = named(settings, "figure", f"names are {', '.join(entries())}; see transduce list figures")
    number, at, benchmark = name.partition("@")
    if at and not benchmark:
        raise InputError(f"{name}: no benchmark after @; write {number}, or {number}@BENCHMARK")
    drawn, said = drawing(number), console(as_json=json)
    configs = drawn.configs(benchmark, typed, said.note)
    from runs.figures.logged import logged_figure
    from runs.jobs import name_of
    from runs.parallel import Parallel
    from runs.storage.locks import silent

    session, code = Session(configs, as_json=json), 0
    if dry_run:
        return session.show_plan()
    if run_missing:
        incomplete = [config for config in configs if drawn.read(config, session.tracker, silent) is None]
        code = session.run_missing(incomplete, Parallel(), yes)
    results = []
    for config in configs:
        result = drawn.read(config, session.tracker, said.note)
        results += [] if result is None else [result]
        if result is None:
            said.note(f"not run, or incomplete: {name_of(config)}")
    advice = shlex.join(["transduce", "figure", *(settings or ()), "--run-missing"])
    if not results and not code:
        raise InputError(f"the record has no run for this figure; start them: {advice}")
    if len(results) < len(configs):
        said.note(f"to start the missing runs: {advice}")
    if results:
        picture, caption = drawn.drawn(results)
        record, revision = (session.store, session.tracker), drawn.revision
        found = logged_figure(name, picture, caption, results, *record, revision=revision, say=said.note, force=force)
        if json:
            said.json(vars(found) | {"files": [str(path) for path in found.files]})
        else:
            said.write(textwrap.fill(found.caption, WIDTH))
        said.note(f"{'reused' if found.reused else 'saved'}: {found.files[0].with_suffix('')}.pdf, .svg and .png")
    return session.close() or code


@verb("report")
def report(
    results: Results = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the site in a browser.")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Print the numbers of cells by verdict, no site.")] = False,
    json: Json = False,
) -> int:
    """Write all tables, claims and figures of the papers as a static site.

    The tables of each paper with the printed values beside those of the shipped runs and of your own, and for
    every number of yours a link to its run in MLflow (transduce ui), in the folder report/ of the results.
    """
    if results == "":
        raise InputError("results= is empty; give a folder, or omit it")
    if json and not counts:
        raise InputError("--json prints the counts; add --counts, or omit --json for the site")
    if open_page and counts:
        raise InputError("--counts writes no site to open; omit --open or --counts")
    from runs.cache import Store
    from runs.track import Tracker

    said, store = console(as_json=json), Store(results)
    tracker = Tracker(store, say=said.note)
    if counts:
        from runs.tables.counts import all_counts

        by_work, by_table = all_counts(tracker)
        rows = [{key: str(value or "") for key, value in row.items() if key not in LISTS} for row in by_work]
        title, right = "printed results of methods, by verdict, and other printed numbers", list(rows[0])[1:]
        said.show({"works": by_work, "tables": by_table}, rows, title=title, right=right)
        return 0
    from runs.report.site import build_report

    page = build_report(store, tracker, say=said.note).as_uri()
    said.write(page)
    if open_page and not webbrowser.open(page):
        said.note("no browser found to open the page")
    return 0


@verb("ui")
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


@verb("list")
def list_options(
    kinds: Annotated[list[str] | None, typer.Argument(metavar="[KIND]...", show_default=False)] = None,
    json: Json = False,
) -> int:
    """List the available strategies, benchmarks, methods, datasets, tables and more."""
    from runs.cli.listing import KINDS

    forms = {form: kind for kind in KINDS for form in (kind[:-1], f"{kind[:-3]}y", kind)}
    listings, said = {}, console(as_json=json)
    for name in kinds or KINDS:
        if "=" in name:
            raise InputError(f"{name!r}: list takes names only, as in `transduce list tables`")
        if name not in forms:
            raise unknown("kind", name, KINDS)
        listings[forms[name]] = KINDS[forms[name]]()
    if json:
        said.json(listings)
        return 0
    for kind, rows in listings.items():
        spelt = [{k: SAID[v] if v is None or isinstance(v, bool) else str(v) for k, v in row.items()} for row in rows]
        if rows:
            said.table(spelt, title=kind, right=("cells", "runnable", "quoted"))
        else:
            said.write(f"{kind}: none\n")
    return 0


@verb("config")
def show_config(settings: Settings = None) -> int:
    """Print the resolved settings of a verb as YAML.

    transduce config VERB [key=value ...]. OmegaConf.load reads the file, and transduce VERB experiment=FILE.yaml
    repeats the run. Several configs differ in the settings below each.

    Examples:
      transduce config evaluate strategy=laplacianshot shot=1,5 > mine.yaml
      transduce config train training.epochs=5
    """
    name, *words = settings or [""]
    if name not in SCHEMAS:
        raise unknown("verb", name, SCHEMAS) if name else InputError(f"name a verb: {', '.join(SCHEMAS)}")
    console().write(to_yaml(parse(SCHEMAS[name], words)))
    return 0
