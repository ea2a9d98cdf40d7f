"""The command `transduce`: a table of verbs, and how each of them ends.

To add a verb: a file in this folder with FLAGS, `usage(settings)` and `run(flags, console)`, and a line here. KEYS, if
it has them, are keys that may be written as flags.
Nothing heavy is imported before a verb knows that its arguments are right.
"""

import importlib
import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from importlib import metadata

from clustering.foundation.errors import InputError, unknown
from clustering.foundation.usable_cores import start_no_more_threads
from runs.cli.flags import parse_flags
from runs.console.endings import FAILED, explain
from runs.console.output import Console
from runs.record.passwords import without_passwords

VERBS = {
    "quickstart": ("runs.cli.quickstart", "the main job on the embedded benchmark, in a few minutes"),
    "train": ("runs.cli.train", "train a backbone on the base classes of a benchmark"),
    "evaluate": ("runs.cli.evaluate", "evaluate strategies on few-shot tasks; trains first where needed"),
    "tune": ("runs.cli.tune", "choose a strategy's values on base and validation classes"),
    "classify": ("runs.cli.classify", "label your own pictures by a few labelled ones of each class"),
    "cluster": ("runs.cli.cluster", "cluster a dataset or your own table, and hold methods against each other"),
    "fair": ("runs.cli.fair", "cluster so that every cluster has the groups' proportions, as nearly as weights ask"),
    "compare": ("runs.cli.compare", "hold strategies against one of them on the same tasks"),
    "table": ("runs.cli.table", "show an experiment's results from the tracked runs"),
    "figure": ("runs.cli.figure", "draw a figure of the papers from the tracked runs"),
    "report": ("runs.cli.report", "write the record of runs as a static site"),
    "data": ("runs.cli.data", "check a benchmark's files, and say where they come from"),
    "import": ("runs.cli.importing", "take features and weights that other programs wrote"),
    "tasks": ("runs.cli.tasks", "write the tasks of a config to a file"),
    "list": ("runs.cli.listing", "show what there is to choose from: strategies, benchmarks, methods, datasets"),
    "completion": ("runs.cli.completion", "print what makes the shell complete verbs, keys and options"),
    "ui": ("runs.cli.ui", "open the MLflow UI on the runs that were made here"),
}
GOING_ON = ("quickstart", "train", "evaluate", "tune", "cluster", "fair", "compare", "table", "figure")
"""Verbs that go on from what an interruption left."""

DONE, INTERRUPTED = 0, 130

USAGE = """\
usage: transduce VERB [key=value ...] [--flag ...]

Transductive few-shot learning and clustering: train, evaluate, compare. Every run is tracked in MLflow.

verbs:
{verbs}

  transduce VERB --help    its keys, their defaults and examples
  transduce --version

A key with several values (shot=1,5) is a run for each. What is finished is used again, what was interrupted
goes on.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line.

    Returns:
        The exit code: 0 done, 1 failed, 2 a mistake that the user can mend, 130 interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    _mend_streams()
    _end_as_by_ctrl_c()
    start_no_more_threads()
    console = Console()
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where strategy=mymodule:MyStrategy is looked for, after everything installed
    with warnings.catch_warnings():
        if not debug and not sys.warnoptions and "PYTEST_CURRENT_TEST" not in os.environ:
            warnings.simplefilter("ignore")  # a user cannot mend what one library deprecates in another
        try:
            return _dispatch(given)
        except KeyboardInterrupt:
            console.error(_interrupted(given))
            return INTERRUPTED
        except BrokenPipeError:
            # whoever read standard output is gone; keep the interpreter from complaining when it flushes
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return FAILED
        except Exception as error:
            if debug:
                sys.stderr.write(without_passwords(traceback.format_exc()))
            text, code = explain(error)
            console.error(f"transduce: {text}")
            if code == FAILED and not debug:
                console.error("Run it again with --debug to see where this happened.")
            return code


def _end_as_by_ctrl_c() -> None:
    """Being terminated, by a job scheduler or a closed terminal, ends as Ctrl-C does: runs are marked, children end."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if (
            number is not None
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(number) is signal.SIG_DFL
        ):
            signal.signal(number, interrupt)


def _mend_streams() -> None:
    """Output that was closed goes nowhere; a character that the terminal does not have becomes a question mark."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        if isinstance(getattr(sys, name), io.TextIOWrapper):
            getattr(sys, name).reconfigure(errors="replace")


def _dispatch(given: list[str]) -> int:
    words = [word for word in given if word != "--debug"]
    if not words or words[0] in ("--help", "-h", "help"):
        width = max(map(len, VERBS))
        Console().write(USAGE.format(verbs="\n".join(f"  {v:{width}}  {VERBS[v][1]}" for v in VERBS)))
        return DONE
    if words[0] == "--version":
        Console().write(f"transduce {_version()}")
        return DONE
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        if verb.startswith("-") or "=" in verb:
            raise InputError(f"say what to do first: transduce VERB {verb} ...; verbs: {', '.join(VERBS)}")
        raise unknown("verb", verb, VERBS)
    module = importlib.import_module(VERBS[verb][0])
    if verb == "completion" and "COMP_LINE" in os.environ:
        rest = []  # bash adds the command and the word, which the line has as well
    flags = parse_flags(verb, module.FLAGS, rest, getattr(module, "KEYS", ()))
    if flags.help:
        Console().write(module.usage(flags.settings))
        return DONE
    return int(module.run(flags, Console(quiet=flags.quiet, as_json=flags.json)))


def _version() -> str:
    try:
        return metadata.version("transduce")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _interrupted(given: Sequence[str]) -> str:
    if given and given[0] in (
        "quickstart",
        "train",
        "evaluate",
        "tune",
        "cluster",
        "fair",
        "compare",
        "table",
        "figure",
    ):
        trains = any(word.startswith("network=") and word != "network=none" for word in given)
        if given[0] == "fair" or (given[0] == "cluster" and not trains):
            whole = "all weights of a path" if given[0] == "fair" else "all starts and settings of a method"
            learned = "" if given[0] == "fair" else "a training that learns features goes on; else "
            return (
                f"\ntransduce: interrupted. Finished runs are kept; {learned}{whole} are one run, and the one that was "
                "interrupted begins anew.\nTo go on, give the same command again."
            )
        return (
            "\ntransduce: interrupted. Finished runs, features and checkpoints are kept, and training up to "
            "its last finished epoch.\nTo go on, give the same command again."
        )
    return "\ntransduce: interrupted."


__all__ = ["VERBS", "main"]
