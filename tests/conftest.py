"""How property tests draw their examples, where the real data are, and that the tests leave the checkout as it was.

The examples are the same each time, so that a change is judged by what it changed; HYPOTHESIS_PROFILE=explore draws
others, which is how new ones are found.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import clustering  # noqa: F401 - before a test imports timm or torchvision itself

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it in its workers, and tables on a pipe would be as narrow as that

NO_CLOCK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", NO_CLOCK, derandomize=True, max_examples=40)
settings.register_profile("explore", NO_CLOCK, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Caches are meant to be left.
UNTRACKED = ["git", "ls-files", "--others", "--directory", "--exclude=.*", "--exclude=__pycache__"]
BEFORE = pytest.StashKey[set[str]]()


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder with the real data sets; tests that need them are skipped where it is not named."""
    folder = os.environ.get("TRANSDUCE_DATA")
    if not folder:
        pytest.skip("TRANSDUCE_DATA names no folder with the reference data")
    return Path(folder)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Of a Dask cluster of two workers, which are threads that get what they work on by TCP, as processes would."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(processes=False, protocol="tcp", **options) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


def untracked(config: pytest.Config) -> set[str]:
    """Files and folders of the checkout that git does not know; none where there is no git."""
    try:
        done = subprocess.run(UNTRACKED, cwd=config.rootpath, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return set()
    return set(done.stdout.splitlines())


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):  # the process that starts the workers looks for all of them
        session.config.stash[BEFORE] = untracked(session.config)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Files that the tests left in the checkout are a failure."""
    if BEFORE not in session.config.stash:
        return
    left = untracked(session.config) - session.config.stash[BEFORE]
    if left and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.ensure_newline()
        reporter.write_line(f"new in the checkout after the tests: {', '.join(sorted(left))}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
