"""The command `transduce`: its verbs, exit codes, and what holds for every verb.

To add a verb, write a function with a docstring and annotated parameters in a file of this folder, and register it with
`@verb`. Import slow packages inside the function: a verb checks its arguments before it loads them.
"""

import contextlib
import io
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated

try:
    import typer
except ModuleNotFoundError:  # the base installation has the estimators and strategies alone
    sys.exit("transduce: the command needs the packages of an extra: pip install 'transduce[all]'")

from clustering.foundation.errors import InputError, InputWarning

from runs.cli import few_shot, own_data, clustering, results  # isort: skip - their verbs, in the order of the help
from runs.cli.app import QUIET, app
from runs.console.endings import FAILED, explain
from runs.console.output import Console
from runs.record.passwords import without_passwords

INTERRUPTED = 130
KEPT = (
    "\ntransduce: interrupted. Finished runs, features and checkpoints are kept.\n"
    "Rerun the same command to continue: a training resumes after its last finished epoch, any other run starts again."
)


def _show_version(asked: bool) -> None:
    if asked:
        Console().write(f"transduce {metadata.version('transduce')}")
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
    _prepare_process()
    console, told = Console(), set[str]()

    def tell(warning: Warning | str, *_: object) -> None:
        if str(warning) not in told:
            told.add(str(warning))
            console.error(f"warning: {warning}")

    with warnings.catch_warnings():
        if not debug and not sys.warnoptions:
            warnings.simplefilter("ignore")  # users cannot act on deprecation warnings between libraries
            warnings.simplefilter("always", InputWarning)
            warnings.showwarning = tell  # type: ignore[assignment]
        try:
            code = int(app(args=_arranged(words), prog_name="transduce", standalone_mode=False) or 0)
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
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
    if code == INTERRUPTED:
        console.error(KEPT)
    return code


def _arranged(words: Sequence[str]) -> list[str]:
    """Return the words with the flags of every verb first."""
    first = [word for word in words if word in ("--quiet", "-q", "--debug")]
    others = [word for word in words if word not in first]
    if not others or others[0] == "help":
        others[:1] = ["--help"]
    if "=" in others[0]:
        raise InputError(f"the verb must come first: transduce VERB {others[0]} ...")
    return [*first, *others]


def _prepare_process() -> None:
    """Set up streams, signals, threads and the path of imports."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        if isinstance(getattr(sys, name), io.TextIOWrapper):
            getattr(sys, name).reconfigure(errors="replace")  # what the terminal cannot encode
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):  # as Ctrl-C: runs are marked as killed, and child processes end
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
    if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # of torch, once loaded: busy waiting delays the awaited threads
    with contextlib.suppress(OSError):
        if not Path("/sys/fs/cgroup/cpu.max").read_text().startswith("max"):  # a container that grants fewer cores
            import joblib

            os.environ.setdefault("OMP_NUM_THREADS", str(joblib.cpu_count()))
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # finds strategy=mymodule:MyStrategy; last, so that installed packages go first


__all__ = ["app", "clustering", "few_shot", "main", "own_data", "results"]
