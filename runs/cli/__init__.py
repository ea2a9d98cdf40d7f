"""The command `transduce`: the table of verbs, and their exit codes.

To add a verb, write a file in this folder with FLAGS, `usage(settings)` and `run(flags, console)`, and add a line to
VERBS. The optional KEYS lists keys that may be written as flags.
Import slow packages inside functions: a verb checks its arguments before it loads them.
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
from clustering.foundation.usable_cores import set_up_threads
from runs.cli.flags import parse_flags
from runs.console.endings import FAILED, explain
from runs.console.output import Console
from runs.record.passwords import without_passwords

VERBS = {
    "quickstart": ("runs.cli.quickstart", "train, evaluate and report on the embedded benchmark, in a few minutes"),
    "train": ("runs.cli.train", "train a backbone on the base classes of a benchmark"),
    "evaluate": ("runs.cli.evaluate", "evaluate strategies on few-shot tasks; train first if needed"),
    "tune": ("runs.cli.tune", "choose a strategy's parameters on base and validation classes"),
    "classify": (
        "runs.cli.classify",
        "classify your own pictures, from a few labelled ones of each class or class names",
    ),
    "label": ("runs.cli.label", "label a pile of pictures or rows on a page, from a few labels to all"),
    "next": ("runs.cli.next", "list the items of a pile to label next, without a page"),
    "cluster": ("runs.cli.cluster", "cluster a dataset or your own table, and compare methods"),
    "fair": ("runs.cli.fair", "cluster with balanced groups: each cluster approaches the groups' proportions"),
    "compare": ("runs.cli.compare", "compare strategies with a reference on the same tasks"),
    "table": ("runs.cli.table", "show the table of an experiment or a paper from the tracked runs"),
    "figure": ("runs.cli.figure", "draw a figure of the papers from the tracked runs"),
    "record": ("runs.cli.record", "export finished runs to a file, or import those of another machine"),
    "report": ("runs.cli.report", "write all tracked runs as a static site"),
    "data": ("runs.cli.data", "check a benchmark's files, or show where to get them"),
    "import": ("runs.cli.importing", "convert features and weights written by other programs"),
    "tasks": ("runs.cli.tasks", "write the tasks of a config to a file"),
    "list": ("runs.cli.listing", "list the available strategies, benchmarks, methods, datasets and tables"),
    "completion": ("runs.cli.completion", "print the shell code that completes verbs, keys and options"),
    "ui": ("runs.cli.ui", "open the MLflow UI on the tracked runs"),
}
RESUMABLE = ("quickstart", "train", "evaluate", "tune", "cluster", "fair", "compare", "table", "figure", "record")
"""Verbs that continue an interrupted run when the same command is given again."""

DONE, INTERRUPTED = 0, 130

USAGE = """\
usage: transduce VERB [key=value ...] [--flag ...]

Transductive few-shot learning and clustering: train, evaluate, compare. Every run is tracked in MLflow.

verbs:
{verbs}

  transduce VERB --help    its keys, their defaults and examples
  transduce --version

A key with several values (shot=1,5) starts one run for each value. Finished runs are reused; rerun the same command
to resume an interrupted one.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line.

    Returns:
        The exit code: 0 success, 1 failure, 2 an error in the input, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    _make_streams_writable()
    _interrupt_on_termination()
    set_up_threads()
    console = Console()
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # finds strategy=mymodule:MyStrategy; last, so that installed packages go first
    with warnings.catch_warnings():
        if not debug and not sys.warnoptions and "PYTEST_CURRENT_TEST" not in os.environ:
            warnings.simplefilter("ignore")  # users cannot act on deprecation warnings between libraries
        try:
            return _dispatch(words)
        except KeyboardInterrupt:
            console.error(_interrupted(words))
            return INTERRUPTED
        except BrokenPipeError:
            # The reader of standard output has exited; avoid a second error when the interpreter flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return FAILED
        except Exception as error:
            if debug:
                sys.stderr.write(without_passwords(traceback.format_exc()))
            text, code = explain(error)
            console.error(f"transduce: {text}")
            if code == FAILED and not debug:
                console.error("Run the command again with --debug to see the traceback.")
            return code


def _interrupt_on_termination() -> None:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that runs are marked as killed and child processes end."""

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


def _make_streams_writable() -> None:
    """Replace closed streams by the null device, and characters that the terminal cannot encode by question marks."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        if isinstance(getattr(sys, name), io.TextIOWrapper):
            getattr(sys, name).reconfigure(errors="replace")


def _dispatch(arguments: list[str]) -> int:
    words = [word for word in arguments if word != "--debug"]
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
            raise InputError(f"the verb must come first: transduce VERB {verb} ...; verbs: {', '.join(VERBS)}")
        raise unknown("verb", verb, VERBS)
    module = importlib.import_module(VERBS[verb][0])
    if verb == "completion" and "COMP_LINE" in os.environ:
        rest = []  # bash appends the command and the word, which are part of the line
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


def _interrupted(words: Sequence[str]) -> str:
    if not words or words[0] not in RESUMABLE:
        return "\ntransduce: interrupted."
    advice = "\nRerun the same command to continue."
    trains = any(word.startswith("network=") and word != "network=none" for word in words)
    if words[0] == "fair":
        return (
            "\ntransduce: interrupted. Finished runs are kept. All weights of a path are one run; the interrupted run "
            f"starts again from its first weight.{advice}"
        )
    if words[0] == "cluster" and not trains:
        return (
            "\ntransduce: interrupted. Finished runs are kept. All starts and settings of a method are one run; the "
            f"interrupted run starts again, but training of a network resumes.{advice}"
        )
    return (
        "\ntransduce: interrupted. Finished runs, features and checkpoints are kept; training resumes after its last "
        f"finished epoch.{advice}"
    )


__all__ = ["VERBS", "main"]
