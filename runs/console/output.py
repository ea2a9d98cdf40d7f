"""What the user sees: results on standard output, progress and messages on standard error."""

import functools
import io
import json
import os
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

    from fsl.progress import Advance

PATIENCE = 20  # seconds without a word, where no bar moves; then twice as many, and so on
WIDE = 160  # columns of a table that goes to a file or a pipe, which no window cuts


class Console:
    """The terminal, or whatever stands in its place. Fills `fsl.progress.Progress`.

    Bars move only on a terminal; elsewhere, as in a file, what takes long says now and then how far it is. The
    outermost leaves one line when it is done. NO_COLOR is honoured.

    Args:
        quiet: no bars and no messages; results and errors only.
        as_json: results are JSON.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self._bars = _Bars()
        self._depth = 0

    def lane(self) -> "Console":
        """A console on the same screen, for work that goes on at the same time: its bars stand beside the others, and
        its outermost leaves a line of its own."""
        beside = Console(quiet=self.quiet, as_json=self.as_json)
        beside._bars = self._bars
        return beside

    def agree(self, question: str) -> bool:
        """Ask on the terminal for a yes, which Return alone is, too; the end of input is a no."""
        sys.stderr.write(f"{question} [Y/n] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer:
            self._write("")
        return answer.strip().lower() in ("y", "yes") or answer == "\n"

    def note(self, text: str) -> None:
        """A message about what happens, such as what is reused."""
        if not self.quiet:
            self._write(text)

    def error(self, text: str) -> None:
        """A message that no flag silences."""
        self._write(text)

    def _write(self, text: str) -> None:
        self._bars.write(without_passwords(text))

    def write(self, text: str) -> None:
        """Text that is the result itself."""
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()

    def json(self, value: Any) -> None:
        """A result for scripts."""
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
        # a byte of a file's name that is no UTF-8 is a surrogate, and spelt out it is one in JSON, too
        self.write(text.encode("utf-8", "backslashreplace").decode())

    @property
    def width(self) -> int:
        """Columns that a table may fill."""
        if not sys.stdout.isatty():
            asked = os.environ.get("COLUMNS", "")
            return int(asked) if asked.isdigit() and int(asked) > 0 else WIDE
        from rich.console import Console as RichConsole

        return RichConsole(file=sys.stdout).width

    def table(self, rows: "Sequence[Mapping[str, str | Text]]", *, title: str = "", right: Sequence[str] = ()) -> None:
        """A result as a table; the columns are the keys of the rows, those in `right` set flush right."""
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
        # A heading of several lines ends above its column; a text of several begins beside the row's name.
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
        """A bar of `total` units with the rate, the time left and the latest numbers."""
        if self.quiet:
            yield _ignore
            return
        done, latest, start = 0, "", time.monotonic()
        self._depth += 1
        try:
            with self._bar(description, total) as show:

                def advance(n: int = 1, **numbers: float) -> None:
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
        """What shows units done, seconds and numbers: on a terminal a bar, elsewhere now and then a line."""
        if not sys.stderr.isatty():
            with self._lines(description, total) as show:
                yield show
            return
        with self._bars.one(description, total) as update:
            yield lambda done, seconds, numbers: update(completed=done, rate=_rate(done, seconds), numbers=numbers)

    @contextmanager
    def _lines(self, description: str, total: int) -> Iterator[Callable[[int, float, str], None]]:
        """Lines about how far it is, ever more seldom, so that a log of hours stays short; also while nothing comes."""
        start, latest, ended = time.monotonic(), (0, ""), threading.Event()

        def say() -> None:
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

        speaker = threading.Thread(target=say, name=description, daemon=True)
        speaker.start()
        try:
            yield show
        finally:
            ended.set()
            speaker.join()


class _Bars:
    """The bars that are on the screen, and the lines above them. Threads may share it."""

    def __init__(self) -> None:
        self._progress: RichProgress | None = None
        self._lock = threading.RLock()

    def write(self, text: str) -> None:
        """A line on standard error, above the bars."""
        with self._lock:
            if self._progress is not None:
                self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()

    @contextmanager
    def one(self, description: str, total: int) -> Iterator[Callable[..., None]]:
        """A bar more; gives what changes its numbers."""
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


def _spell(numbers: Mapping[str, float]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items())


def _rate(done: float, seconds: float) -> str:
    return f"{done / seconds:,.3g}/s" if seconds > 0.5 and done else ""


def _after(done: int, total: int, seconds: float) -> str:
    """Seconds, and the time left at the speed so far."""
    left = f", about {duration(seconds * (total - done) / done)} left" if 0 < done < total else ""
    return f"{seconds:.0f} s{left}"


def _ignore(n: int = 1, **numbers: float) -> None:
    pass
