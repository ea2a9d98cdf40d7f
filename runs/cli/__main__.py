"""Run `transduce` as `python -m runs.cli`."""

import sys

from runs.cli import main

sys.exit(main())
