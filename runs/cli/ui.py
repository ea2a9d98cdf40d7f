"""`transduce ui`: open the MLflow UI on the tracked runs."""

from collections.abc import Sequence
from typing import Any

from runs.cli.flags import Flags, describe
from runs.cli.keys import read_keys
from runs.console.output import Console

FLAGS: tuple[str, ...] = ()
KEYS: dict[str, Any] = {"host": "127.0.0.1", "port": 5000, "browse": True, "results": None}
ABOUT = """\
usage: transduce ui [key=value ...] [--flag ...]

Open the MLflow UI on the tracked runs, at the experiment with the newest result. Press Ctrl-C to stop the server.

keys:
  host=127.0.0.1  the address to listen on; 0.0.0.0 admits other machines, without a password
  port=5000       the port
  browse=true     open a browser if there is a display; false only prints the address
  results=null    folder of results; null: $TRANSDUCE_RESULTS, else results/ here

flags:
{flags}

examples:
  transduce ui
  transduce ui port=5001
"""


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    return ABOUT.format(flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Start the UI and wait for Ctrl-C."""
    values = read_keys(flags.settings, KEYS)
    from runs.cache import Store
    from runs.record.server import serve

    store = Store(values["results"])
    serve(store, host=values["host"], port=values["port"], browse=values["browse"], say=console.error)
    return 0
