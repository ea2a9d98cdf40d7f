"""How property tests draw their examples: the same ones each time, so that a change is judged by what it changed.

HYPOTHESIS_PROFILE=explore draws others, which is how new examples are found.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

NO_CLOCK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", NO_CLOCK, derandomize=True)
settings.register_profile("explore", NO_CLOCK, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder with the real data sets; tests that need them are skipped where it is not named."""
    folder = os.environ.get("TRANSDUCE_DATA")
    if not folder:
        pytest.skip("TRANSDUCE_DATA names no folder with the reference data")
    return Path(folder)
