"""The console: results on standard output, progress and messages on standard error."""

import json
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runs.record.passwords import without_passwords

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    from clustering.foundation.progress import Advance

    Row = Mapping[str, str | Text]

PATIENCE = 20  # seconds until the first progress line without a terminal; the interval then doubles
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a name of a stranger's run could clear the terminal with them
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

    def agree(self, question: str) -> bool:
        """Ask for confirmation on the terminal. An empty line means yes; the end of input means no."""
        sys.stderr.write(f"{question} [Y/n] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        return answer == "\n" or answer.strip().lower() in ("y", "yes")

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
        """Print a result as a table, or with a line for each cell if the screen is too narrow.

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
        if title:
            self.write(title)
        table, needed = Table(box=box.SIMPLE_HEAD), 1
        # Align headings of several lines at the bottom, but cells of several lines at the top.
        table_style: dict[str, Any] = {"vertical": "bottom" if any("\n" in name for name in columns) else "top"}
        for name in columns:
            whole = name == columns[0]  # not wrapped
            cells = [name, *(str(row.get(name, "")) for row in rows)]
            least = max(len(part) for text in cells for part in (text.splitlines() if whole else text.split()) or [""])
            table_style["justify"] = "right" if name in right else "left"
            table.add_column(Text(name), min_width=least, no_wrap=whole, **table_style)
            needed += least + 3
        for row in rows:
            values = (row.get(name, "") for name in columns)
            table.add_row(*(value if isinstance(value, Text) else Text(value) for value in values))
        if needed > self.width or any(len(str(row.get(columns[0], ""))) > self.width / 2 for row in rows):
            self.write(_as_lines(rows, columns, self.width))
            return
        screen = RichConsole(file=sys.stdout, width=self.width, highlight=False)
        with screen.capture() as captured:
            screen.print(table)
        self.write("\n".join(line.rstrip() for line in captured.get().splitlines()))

    @contextmanager
    def track(self, description: str, total: int) -> Iterator["Advance"]:
        """Show the progress of `total` units, with rate, remaining time and the latest numbers."""
        if self.quiet:
            yield lambda n=1, **numbers: None
            return
        done, latest, start = 0, "", time.monotonic()
        self._depth += 1
        try:
            with self._bar(description, total) if sys.stderr.isatty() else self._lines(description, total) as show:

                def advance(n: int = 1, **numbers: float | str) -> None:
                    nonlocal done, latest
                    done, latest = done + n, _spell(numbers) or latest
                    show(done, latest)

                yield advance
        finally:
            self._depth -= 1
        if self._depth == 0:
            seconds = time.monotonic() - start
            self.error(f"{description}: {done:,} of {total:,} in {seconds:.1f} s  {latest}".rstrip())

    @contextmanager
    def _bar(self, description: str, total: int) -> Iterator[Callable[[int, str], None]]:
        """Show a bar on the terminal, and yield the function that updates it."""
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        if self._bars is None:
            text, numbers = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[numbers]}")
            columns = (text, BarColumn(bar_width=30), MofNCompleteColumn(), TimeRemainingColumn(), numbers)
            self._bars = Progress(*columns, console=RichConsole(stderr=True), transient=True, refresh_per_second=5)
            self._bars.start()
        bars, task = self._bars, self._bars.add_task(description, total=total, numbers="")
        try:
            yield lambda done, numbers: bars.update(task, completed=done, numbers=numbers)
        finally:
            bars.remove_task(task)
            if not bars.task_ids:
                self._bars = None
                bars.stop()

    @contextmanager
    def _lines(self, description: str, total: int) -> Iterator[Callable[[int, str], None]]:
        """Yield a function that prints progress lines, at doubling intervals, so that long logs stay short."""
        start, gap = time.monotonic(), float(PATIENCE)

        def show(done: int, numbers: str) -> None:
            nonlocal gap
            if (seconds := time.monotonic() - start) >= gap and done < total:
                gap = 2 * seconds
                self.error(f"{description}: {done:,} of {total:,} after {seconds:.0f} s  {numbers}".rstrip())

        yield show


def _as_lines(rows: "Sequence[Row]", columns: Sequence[str], width: int) -> str:
    """Return each row as the first cell, then one line for each other cell."""
    lines: list[str] = []
    for row in rows:
        lines.append(str(row.get(columns[0], "")))
        for name in columns[1:]:
            if text := " ".join(str(row.get(name, "")).split()):
                named = f"{' '.join(name.split())}: {text}" if name else text
                lines += textwrap.wrap(
                    named, width, initial_indent="  ", subsequent_indent="    ", break_long_words=False
                )
    return "\n".join(lines) + "\n"


def _spell(numbers: Mapping[str, float | str]) -> str:
    """Return the numbers by name; text as it is."""
    spelled = {name: value if isinstance(value, str) else f"{value:.4g}" for name, value in numbers.items()}
    return "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in spelled.items())
