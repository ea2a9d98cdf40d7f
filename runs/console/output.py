"""The console: results on standard output, progress and messages on standard error."""

import functools
import io
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from runs.console import narrow_tables
from runs.console.spans import duration
from runs.record.passwords import without_passwords

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    from clustering.foundation.progress import Advance

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
        self._bars = _Bars()
        self._depth = 0

    def lane(self) -> "Console":
        """A console for concurrent work on the same screen, with its own nesting of tasks."""
        lane = Console(quiet=self.quiet, as_json=self.as_json)
        lane._bars = self._bars
        return lane

    def agree(self, question: str) -> bool:
        """Ask for confirmation on the terminal. An empty line means yes; the end of input means no."""
        sys.stderr.write(f"{question} [Y/n] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer:
            self._write("")
        return answer.strip().lower() in ("y", "yes") or answer == "\n"

    def note(self, text: str) -> None:
        """Print a message, unless the console is quiet."""
        if not self.quiet:
            self._write(text)

    def error(self, text: str) -> None:
        """Print a message, even if the console is quiet."""
        self._write(text)

    def _write(self, text: str) -> None:
        self._bars.write(CONTROL.sub("?", without_passwords(text)))

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
        if not sys.stdout.isatty():
            columns = os.environ.get("COLUMNS", "")
            return int(columns) if columns.isdigit() and int(columns) > 0 else WIDE
        from rich.console import Console as RichConsole

        return RichConsole(file=sys.stdout).width

    def table(self, rows: "Sequence[Mapping[str, str | Text]]", *, title: str = "", right: Sequence[str] = ()) -> None:
        """Print a result as a table. Its columns are the keys of the rows; those in `right` are right-aligned."""
        columns = list(dict.fromkeys(name for row in rows for name in row))
        if title:
            self.write(title)
        tables = narrow_tables.tables(rows, columns, self.width)
        if not tables:
            self.write(narrow_tables.as_blocks(rows, columns, self.width))
        for part in tables:
            self._table(*part, right)

    def _table(self, rows: "Sequence[Mapping[str, str | Text]]", columns: Sequence[str], right: Sequence[str]) -> None:
        from rich import box
        from rich.console import Console as RichConsole
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD)
        # Align headings of several lines at the bottom, but cells of several lines at the top.
        vertical: Literal["bottom", "top"] = "bottom" if any("\n" in name for name in columns) else "top"
        for name in columns:
            first = name == columns[0]
            justify: Literal["left", "right"] = "right" if name in right else "left"
            table.add_column(Text(name), justify=justify, vertical=vertical, overflow="fold", no_wrap=first)
        for row in rows:
            values = (row.get(name, "") for name in columns)
            table.add_row(*(value if isinstance(value, Text) else Text(value) for value in values))
        if sys.stdout.isatty():
            RichConsole(file=sys.stdout, highlight=False).print(table)
            return
        plain = RichConsole(file=io.StringIO(), width=self.width, highlight=False, no_color=True)
        with plain.capture() as captured:
            plain.print(table)
        self.write("\n".join(line.rstrip() for line in captured.get().splitlines()))

    @contextmanager
    def track(self, description: str, total: int) -> Iterator["Advance"]:
        """Show the progress of `total` units, with rate, remaining time and the latest numbers."""
        if self.quiet:
            yield _ignore
            return
        done, latest, start = 0, "", time.monotonic()
        self._depth += 1
        try:
            with self._bar(description, total) as show:

                def advance(n: int = 1, **numbers: float | str) -> None:
                    nonlocal done, latest
                    done, latest = done + n, _spell(numbers) or latest
                    show(done, time.monotonic() - start, latest)

                yield advance
        finally:
            self._depth -= 1
        if self._depth == 0:
            seconds = time.monotonic() - start
            self._write(f"{description}: {done:,} of {total:,} in {seconds:.1f} s  {latest}".rstrip())

    @contextmanager
    def _bar(self, description: str, total: int) -> Iterator[Callable[[int, float, str], None]]:
        """A function that shows the units done, seconds and numbers: as a bar on a terminal, otherwise as lines."""
        if not sys.stderr.isatty():
            with self._lines(description, total) as show:
                yield show
            return
        with self._bars.one(description, total) as update:
            yield lambda done, seconds, numbers: update(completed=done, rate=_rate(done, seconds), numbers=numbers)

    @contextmanager
    def _lines(self, description: str, total: int) -> Iterator[Callable[[int, float, str], None]]:
        """Print progress lines at doubling intervals, so that long logs stay short; also if no unit is completed."""
        start, latest, ended = time.monotonic(), (0, ""), threading.Event()

        def print_lines() -> None:
            gap = PATIENCE
            while not ended.wait(gap):
                done, numbers = latest
                seconds = time.monotonic() - start
                after = _after(done, total, seconds)
                self._write(f"{description}: {done:,} of {total:,} after {after}  {numbers}".rstrip())
                gap *= 2

        def show(done: int, seconds: float, numbers: str) -> None:
            nonlocal latest
            latest = done, numbers

        printer = threading.Thread(target=print_lines, name=description, daemon=True)
        printer.start()
        try:
            yield show
        finally:
            ended.set()
            printer.join()


class _Bars:
    """The progress bars on the screen and the lines above them. Thread-safe."""

    def __init__(self) -> None:
        self._progress: RichProgress | None = None
        self._lock = threading.RLock()

    def write(self, text: str) -> None:
        """Print a line on standard error, above the bars."""
        with self._lock:
            if self._progress is not None:
                self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()

    @contextmanager
    def one(self, description: str, total: int) -> Iterator[Callable[..., None]]:
        """Add a bar, and yield the function that updates it."""
        with self._lock:
            bars = self._progress = self._progress or _start()
            task = bars.add_task(description, total=total, numbers="", rate="")
        try:
            yield functools.partial(bars.update, task)
        finally:
            with self._lock:
                bars.remove_task(task)
                if not bars.task_ids:
                    self._progress = None
                    bars.stop()


def _start() -> "RichProgress":
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(),
        TextColumn("{task.fields[numbers]}", markup=False),
        console=RichConsole(stderr=True),
        transient=True,
        refresh_per_second=5,
    )
    bars.start()
    return bars


def _spell(numbers: Mapping[str, float | str]) -> str:
    """The numbers by name; text as it is."""
    spelled = {name: value if isinstance(value, str) else f"{value:.4g}" for name, value in numbers.items()}
    return "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in spelled.items())


def _rate(done: float, seconds: float) -> str:
    return f"{done / seconds:,.3g}/s" if seconds > 0.5 and done else ""


def _after(done: int, total: int, seconds: float) -> str:
    """The elapsed seconds, and the estimated remaining time."""
    left = f", about {duration(seconds * (total - done) / done)} left" if 0 < done < total else ""
    return f"{seconds:.0f} s{left}"


def _ignore(n: int = 1, **numbers: float | str) -> None:
    pass
