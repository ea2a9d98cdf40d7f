"""A process that has everything imported and forks a child for each command line: kills then meet work, not imports.

    python nursery.py    one line of JSON in, {"typed": [...], "seconds": S}; one out, {"code": N, "out": "", "err": ""}

A child that is not done after `seconds` (null: it may take its time) is killed, alone, as by `kill -9`.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import warnings


def main() -> None:
    warnings.simplefilter("ignore")
    sys.path[:0] = sys.argv[1:]
    import matplotlib.figure  # noqa: F401
    import mlflow.store.tracking.sqlalchemy_store
    import mlflow.tracking  # noqa: F401
    import scipy.sparse.linalg  # noqa: F401
    import sklearn.cluster  # noqa: F401
    import torch

    import clustering.foundation.quiet_lightning  # noqa: F401
    import fsl.training.base  # noqa: F401
    import runs.cli
    import runs.report.site
    import runs.stages.clustering.stage
    import runs.stages.fair.stage
    import runs.stages.pipeline  # noqa: F401

    torch.set_num_threads(1)
    _say("ready")
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = os.fork()
            if child == 0:
                _run(asked["typed"], out.fileno(), err.fileno())
            since = time.monotonic()
            code = _wait(child, asked["seconds"])
            seconds = time.monotonic() - since
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read())
        _say(json.dumps({"code": code, "seconds": seconds, "out": said[0], "err": said[1]}))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _run(typed: list[str], out: int, err: int) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    from runs.cli import main as command

    code = 1
    with contextlib.suppress(SystemExit):
        code = command(typed)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait(child: int, seconds: float | None) -> int:
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, 0 if end is None else os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if end is not None and time.monotonic() >= end:
            os.kill(child, signal.SIGKILL)
            end = None
        time.sleep(0.002)


if __name__ == "__main__":
    main()
