"""Runs a command that ends, with all that it starts, when the process that started it is gone, however that ended.

To be started in a session of its own: `python leash.py FD COMMAND...`, FD being the end for reading of a pipe whose
other end is open in the starting process alone. The system closes that end when the process ends, even by SIGKILL. It
imports little and takes some milliseconds.
"""

import os
import signal
import sys
import time

GRACE = 5.0  # seconds to end by itself


def main() -> None:
    """Become the command; a child of it watches the pipe."""
    pipe, command = int(sys.argv[1]), sys.argv[2:]
    if os.fork() == 0:
        _watch(pipe)
    os.close(pipe)
    os.execv(command[0], command)


def _watch(pipe: int) -> None:
    os.read(pipe, 1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
