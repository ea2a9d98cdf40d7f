"""`transduce figure`: a figure of the papers, drawn from the tracked runs."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags, describe
from runs.cli.missing import agreed
from runs.cli.usage import WIDTH
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, TuneConfig
from runs.console.output import Console
from runs.stages.lineage import cluster_name, evaluate_name
from runs.storage.locks import silent

if TYPE_CHECKING:
    from runs.cli.session import Session
    from runs.figures.drawing import AnyDrawing

FLAGS = ("run-missing", "yes", "dry-run", "force", "json")
ABOUT = """\
usage: transduce figure NAME[@BENCHMARK] [key=value ...] [--flag ...]

Draw a figure of the papers from the tracked runs. The figure is saved in the results folder as PDF, SVG and PNG with
its caption, and logged to MLflow with the runs it shows. Missing runs are only started with --run-missing.
NAME is one of {names}; transduce list figures shows the requirements of the others.
NAME@BENCHMARK draws the figure on another benchmark with the backbone conv4; a figure of clustering takes
NAME@DATASET. A key replaces the paper's value, as in tasks=500 for the number of novel tasks. root=FOLDER is the
folder of the data.

flags:
{flags}

examples:
  transduce figure thesis/4.1@glyphs tasks=500 --run-missing -y
  transduce figure thesis/4.2@glyphs --run-missing -y
  transduce figure thesis/0.1 --run-missing -y
  transduce figure thesis/2.1 root=FOLDER --run-missing -y
  transduce figure thesis/2.2@digits --run-missing -y
  transduce figure vlm/regimes features_root=FOLDER --run-missing -y
  transduce figure thesis/4.2@mini root=FOLDER checkpoint=model_best.pth.tar --run-missing -y
"""


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.figures.papers import DRAWN, OWN

    return ABOUT.format(names=", ".join([*DRAWN, *OWN]), flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Draw the figure named in the settings."""
    name, typed = _requested(flags.settings)
    from runs.figures.papers import drawing

    number, at, benchmark = name.partition("@")
    if at and not benchmark:
        raise InputError(f"{name}: no benchmark after @; write {number}, or {number}@BENCHMARK")
    drawn = drawing(number)
    configs = drawn.configs(name, benchmark, typed, console.note)
    from runs.cli.session import Session

    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    failures = _make(drawn, configs, session, flags) if flags.run_missing else []
    results = _read(drawn, configs, session)
    advice = f"to start the missing runs: transduce figure {' '.join(flags.settings)} --run-missing"
    if not results:
        raise failures[0] if failures else InputError(f"the record has no run for this figure; {advice}")
    if len(results) < len(configs):
        console.note(advice)
    from runs.figures.logged import logged_figure

    figure = logged_figure(name, drawn, results, session.store, session.tracker, say=console.note, force=flags.force)
    if console.as_json:
        console.json(vars(figure) | {"files": [str(path) for path in figure.files]})
    else:
        console.write(textwrap.fill(figure.caption, WIDTH))
    console.note(f"{'reused' if figure.reused else 'saved'}: {figure.files[0].with_suffix('')}.pdf, .svg and .png")
    session.close()
    if failures:
        raise failures[0]
    return 0


def _requested(settings: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name of the figure, and the settings that replace the paper's."""
    words = [word for word in settings if "=" not in word]
    if len(words) != 1:
        from runs.figures.papers import DRAWN, OWN

        names = ", ".join([*DRAWN, *OWN])
        raise InputError(f"give the name of one figure: transduce figure NAME; names: {names}")
    return words[0], [setting for setting in settings if "=" in setting]


def _make(drawing: "AnyDrawing", configs: Sequence[Any], session: "Session", flags: Flags) -> list[Exception]:
    """Run the configs without a complete result, after confirmation. A failure does not stop the other runs.

    Returns:
        The errors of failed runs.

    Raises:
        InputError: confirmation is impossible, or a config cannot be run.
    """
    missing = [config for config in configs if drawing.read(config, session.tracker, silent) is None]
    if not missing:
        return []
    console = session.console
    for line in str(session.plan(missing)).splitlines():
        console.note(line)
    if not agreed(console, flags):
        return []
    failures: list[Exception] = []
    for config in missing:
        try:
            if isinstance(config, FairConfig):
                failures += session.fair([config], force=False)[1]
            elif isinstance(config, ClusterConfig):
                session.clustering([config], force=False)
            elif isinstance(config, TuneConfig):
                session.tuning(config, force=False)
            else:
                session.evaluation([config], force=False)
        except Exception as error:
            console.error(f"failed: {_name(config)}: {error}")
            failures.append(error)
    return failures


def _name(config: EvaluateConfig | TuneConfig | ClusterConfig | FairConfig) -> str:
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
