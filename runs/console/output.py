"""The console: results on standard output, progress and messages on standard error."""

import json
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from runs.record.passwords import without_passwords

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    from clustering.foundation.progress import Advance

    Row = Mapping[str, str | Text]

PATIENCE = 20  # seconds until the first progress line without a terminal; the interval then doubles
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # another's run may have such a name
WIDE = 160  # width of tables written to a file or a pipe, in characters


class Console:
    """Output to a terminal, a pipe or a file. Implements `clustering.foundation.progress.Progress`.

    A terminal shows progress bars; otherwise long tasks print progress lines at growing intervals. The outermost task
    prints one line when it is done. NO_COLOR is respected.

    Args:
        quiet: print only results and errors.
        as_json: print results as JSON.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self._bars: RichProgress | None = None
        self._depth = 0

    def note(self, text: str) -> None:
        """Print a message, unless the console is quiet."""
        if not self.quiet:
            self.error(text)

    def error(self, text: str) -> None:
        """Print a message above the progress bars, even if the console is quiet."""
        text = CONTROL.sub("?", without_passwords(text))
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def write(self, text: str) -> None:
        """Print text that is a result."""
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()

    def json(self, value: Any) -> None:
        """Print a result as JSON."""
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
        # Bytes of file names that are not UTF-8 are surrogates in Python; JSON writes them as escapes.
        self.write(text.encode("utf-8", "backslashreplace").decode())

    @property
    def width(self) -> int:
        """The width available for tables, in characters."""
        return shutil.get_terminal_size((WIDE, 0)).columns

    def show(self, facts: Any, rows: "Sequence[Row]", *, title: str = "", right: Sequence[str] = ()) -> None:
        """Print a result as JSON, or as a table."""
        if self.as_json:
            self.json(facts)
        else:
            self.table(rows, title=title, right=right)

    def table(self, rows: "Sequence[Row]", *, title: str = "", right: Sequence[str] = ()) -> None:
        """Print a result as a table, which is wider than the screen if its words do not fit.

        Args:
            rows: cells by column; the first column is not wrapped.
            title: a line above the table.
            right: the columns that are right-aligned.
        """
        from rich import box
        from rich.console import Console as RichConsole
        from rich.table import Table
        from rich.text import Text

        columns = list(dict.fromkeys(name for row in rows for name in row))
        table = Table(box=box.SIMPLE_HEAD)
        # Align headings of several lines at the bottom, but cells of several lines at the top.
        look: dict[str, Any] = {"vertical": "bottom" if any("\n" in name for name in columns) else "top"}
        for name in columns:
            look["justify"] = "right" if name in right else "left"
            if name == columns[0]:
                texts = [name, *(str(row.get(name, "")) for row in rows)]
                longest = max(len(line) for text in texts for line in text.splitlines() or [""])
                table.add_column(Text(name), no_wrap=True, min_width=longest, **look)
            else:
                table.add_column(Text(name), **look)
        for row in rows:
            table.add_row(*(Text(cell) if isinstance(cell := row.get(name, ""), str) else cell for name in columns))
        screen = RichConsole(file=sys.stdout, width=sys.maxsize, highlight=False)
        screen.width = max(self.width, screen.measure(table).minimum + len(columns))
        with screen.capture() as captured:
            screen.print(table)
        lines = [line.rstrip() for line in captured.get().splitlines()]
        self.write("\n".join([*([title] if title else []), *lines]))

    @contextmanager
    def track(self, description: str, total: int) -> Iterator["Advance"]:
        """Show the progress of `total` units, with remaining time and the latest numbers."""
        if self.quiet:
            yield lambda n=1, **numbers: None
            return
        done, latest, start, gap = 0, "", time.monotonic(), float(PATIENCE)
        bars = self._open_bars() if sys.stderr.isatty() else None
        bar = bars.add_task(description, total=total, numbers="") if bars else None
        self._depth += 1

        def advance(n: int = 1, **numbers: float | str) -> None:
            nonlocal done, latest, gap
            texts = {name: value if isinstance(value, str) else f"{value:.4g}" for name, value in numbers.items()}
            latest = "  ".join(f"{name.replace('_', ' ')} {text}" for name, text in texts.items()) or latest
            done, seconds = done + n, time.monotonic() - start
            if bars and bar is not None:
                bars.update(bar, completed=done, numbers=latest)
            elif seconds >= gap and 0 < done < total:  # at doubling intervals, so that long logs stay short
                gap = 2 * seconds
                clock, left = (timedelta(seconds=round(s)) for s in (seconds, seconds * (total - done) / done))
                self.error(f"{description}: {done:,} of {total:,} after {clock}, about {left} left  {latest}".rstrip())

        try:
            yield advance
        finally:
            self._depth -= 1
            if bars and bar is not None:
                bars.remove_task(bar)
            if bars and not self._depth:
                self._bars = None
                bars.stop()
        if not self._depth:
            seconds = time.monotonic() - start
            self.error(f"{description}: {done:,} of {total:,} in {seconds:.1f} s  {latest}".rstrip())

    def _open_bars(self) -> "RichProgress":
        """Return the bars on the terminal."""
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        if self._bars is None:
            text, numbers = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[numbers]}")
            columns = (text, BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn(), numbers)
            self._bars = Progress(*columns, console=RichConsole(stderr=True), transient=True, refresh_per_second=5)
            self._bars.start()
        return self._bars
