"""`transduce quickstart`: train, evaluate, tabulate and plot on the embedded benchmark."""

import dataclasses
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from runs.cli.flags import Flags
from runs.config.configs import EvaluateConfig, parse
from runs.console.output import Console

FLAGS = ("dry-run", "force", "json")
NAME = "quickstart"
ABOUT = """\
Run the whole pipeline on the embedded benchmark, in a few minutes on two cores: train a small backbone on the base
classes, extract features, evaluate strategies on 1-shot and 5-shot tasks, log every run to MLflow, and write a table,
two figures and the report. Finished steps are reused when the command is run again."""
EXAMPLES = ("", "seed=0,1,2", "epochs=4 warmup=1 tasks=500   (half a minute, with worse features)")


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    return write_usage(NAME, ABOUT, EvaluateConfig, FLAGS, EXAMPLES, [f"experiment={NAME}", *settings])


def run(flags: Flags, console: Console) -> int:
    """Evaluate the experiment, then show its table from the record."""
    configs = parse(EvaluateConfig, [f"experiment={NAME}", *flags.settings])
    from runs.cli.session import Session
    from runs.cli.table import show
    from runs.tables.evidence import look_up
    from runs.tables.grid import table_of

    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    results = session.evaluation(configs, force=flags.force)

    import numpy as np

    from runs.figures.accuracy import accuracy_figure
    from runs.figures.descent import descent_figure
    from runs.figures.style import save_for_print
    from runs.report.site import build_report

    table = dataclasses.replace(look_up(table_of(NAME, configs), session.tracker), findings=())  # a short first result
    show(table, NAME, session.store, console)
    pictures = {"accuracy": (accuracy_figure(table), table.title)}
    traced = [(r.config.strategy.name, r.trace) for r in results if r.trace is not None]
    if traced:
        # Prefer the first strategy of which most tasks have not converged after five steps.
        slow = [(name, trace) for name, trace in traced if len(trace) > 5 and np.isnan(trace[5]).mean() < 0.5]
        name, trace = (slow or traced)[0]
        pictures["descent"] = (descent_figure(trace, name), f"objective of {name} at each step")
    folder = session.store.figures
    with session.store.watched():
        for name, (figure, caption) in pictures.items():
            save_for_print(figure, folder, f"{NAME}-{name}", title=f"{NAME}: {name}", about=caption)
            console.note(f"saved: {folder / NAME}-{name}.pdf, .svg and .png")
    page = build_report(session.store, session.tracker, experiments={NAME: configs}, say=console.note)
    console.note(f"report: {page.as_uri()}")
    # If the command is not on the path, show it as it was called: make calls the one in .venv.
    called = Path(sys.argv[0])
    command = called if called.name == "transduce" and not shutil.which("transduce") else "transduce"
    console.note(f"to compare the runs in MLflow: {command} ui")
    return 0
