"""How property tests draw their examples: the same ones each time, so that a change is judged by what it changed.

HYPOTHESIS_PROFILE=explore draws others, which is how new examples are found.
"""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
