"""`python -m runs.cli` is `transduce`."""

import sys

from runs.cli import main

sys.exit(main())
