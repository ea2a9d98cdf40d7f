"""The command `transduce`: its verbs, exit codes, and what holds for every verb.

To add a verb, write a function with a docstring and annotated parameters in a file of this folder, and register it with
`@app.command`. Import slow packages inside the function: a verb checks its arguments before it loads them.
"""

import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from clustering.foundation.errors import InputError
from clustering.foundation.usable_cores import set_up_threads
from runs.cli import clustering, few_shot, own_data, results
from runs.cli.app import QUIET, app
from runs.console.endings import FAILED, MISTAKE, explain
from runs.console.output import Console
from runs.record.passwords import without_passwords

RESUMABLE = ("quickstart", "train", "evaluate", "tune", "cluster", "fair", "compare", "table", "figure", "record")
"""Verbs that continue an interrupted run when the same command is given again."""
INTERRUPTED = 130
ORDER = (few_shot, own_data, clustering, results)  # importing them registers their verbs


def _show_version(asked: bool) -> None:
    if asked:
        try:
            version = metadata.version("transduce")
        except metadata.PackageNotFoundError:
            version = "(not installed)"
        Console().write(f"transduce {version}")
        raise typer.Exit()


@app.callback(epilog="The help of a verb, transduce VERB --help, lists its keys, their defaults and examples.")
def transduce(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no messages.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Transductive few-shot learning and clustering: train, evaluate, compare. Every run is tracked in MLflow.

    A key with several values (shot=1,5) starts one run for each value. Finished runs are reused; rerun the same command
    to resume an interrupted one.
    """
    QUIET[0] = quiet


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
        if not debug and not sys.warnoptions:
            warnings.simplefilter("ignore")  # users cannot act on deprecation warnings between libraries
        try:
            code = app(args=_arranged(words, console), prog_name="transduce", standalone_mode=False) or 0
            if code == INTERRUPTED:
                console.error(_interrupted(words))
            return int(code)
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
            text, code = _explained(error)
            console.error(f"transduce: {text}")
            if code == FAILED and not debug:
                console.error("Run the command again with --debug to see the traceback.")
            return code


def _arranged(words: Sequence[str], console: Console) -> list[str]:
    """Return the words with the flags of every verb first, and the habits of Hydra's users in this program's form."""
    first = [word for word in words if word in ("--quiet", "-q", "--debug")]
    others = [word for word in words if word not in first]
    if not others or others[0] == "help":
        others[:1] = ["--help"]
    for word in ("-m", "--multirun"):
        if word in others:
            others.remove(word)
            console.error(f"{word} is not needed: a key with several values starts one run for each")
    shows = [word for word in others if word == "--cfg" or word.startswith("--cfg=")]
    if shows:
        at = others.index(shows[0])
        kind = others[at + 1 : at + 2] if shows[0] == "--cfg" else []
        others = ["config", *others[:at], *others[at + 1 + (kind in (["job"], ["all"])) :]]
    return [*first, *others]


def _explained(error: Exception) -> tuple[str, int]:
    """Return the message for an error and the exit code, also for those of the command line itself."""
    if isinstance(error, InputError) or not hasattr(error, "format_message"):
        return explain(error)
    return error.format_message() or type(error).__name__, MISTAKE


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


def _interrupted(words: Sequence[str]) -> str:
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb not in RESUMABLE:
        return "\ntransduce: interrupted."
    advice = "\nRerun the same command to continue."
    trains = any(word.startswith("network=") and word != "network=none" for word in words)
    if verb == "fair":
        return (
            "\ntransduce: interrupted. Finished runs are kept. All weights of a path are one run; the interrupted run "
            f"starts again from its first weight.{advice}"
        )
    if verb == "cluster" and not trains:
        return (
            "\ntransduce: interrupted. Finished runs are kept. All starts and settings of a method are one run; the "
            f"interrupted run starts again, but training of a network resumes.{advice}"
        )
    return (
        "\ntransduce: interrupted. Finished runs, features and checkpoints are kept; training resumes after its last "
        f"finished epoch.{advice}"
    )


__all__ = ["app", "main"]
