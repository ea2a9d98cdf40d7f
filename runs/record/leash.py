"""Run a command that ends, with all its child processes, when the process that started it ends for any reason.

Start it in a new session: `python leash.py FD COMMAND...`, where FD is the read end of a pipe whose write end is open
in the starting process only. The operating system closes the write end when that process ends, even by SIGKILL. The
module has few imports and starts in some milliseconds.
"""

import os
import signal
import sys
import time

GRACE = 5.0  # seconds for the command to end by itself


def main() -> None:
    """Replace this process by the command; a child process watches the pipe."""
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
