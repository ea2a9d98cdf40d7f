"""Child processes of the tests: interrupted where they say that they stand still, and never left behind."""

import contextlib
import os
import signal
import subprocess
import sys
import time


@contextlib.contextmanager
def started(arguments, environment, *, output=subprocess.PIPE, **more):
    """A Python process of its own; at the end it is killed, and whatever it started."""
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", *arguments],
        env=environment,
        stdout=output,
        stderr=more.pop("stderr", output),
        text=True,
        start_new_session=True,
        preexec_fn=_heed_control_c,
        **more,
    )
    with child:
        try:
            yield child
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def interrupted(arguments, environment, number):
    """Exit code and messages of a process that got a signal when it had written "reached"."""
    with started(arguments, environment) as child:
        said = child.stdout.readline()
        assert said == "reached\n", child.communicate(timeout=60)
        child.send_signal(number)
        _, messages = child.communicate(timeout=60)
    return child.returncode, messages


def together(commands, environment, *, seconds):
    """What several processes at once write, as pairs of results and messages; all of them end well."""
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(started(command, environment)) for command in commands]
        said = [child.communicate(timeout=seconds) for child in children]
    assert [child.returncode for child in children] == [0] * len(children), said
    return said


def until(condition):
    """What a condition gives when it holds at last; a minute later it is given up."""
    for _ in range(1200):
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it never came to pass")


def _heed_control_c():
    """A shell that runs tests in the background lets its children ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
