"""What the user sees: results on standard output, progress and messages on standard error."""

import io
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from fsl.progress import Advance

WIDE = 160  # columns of a table that goes to a file or a pipe, which no window cuts


class Console:
    """The terminal, or whatever stands in its place. Fills `fsl.progress.Progress`.

    Bars move only on a terminal; the outermost leaves one line when it is done. NO_COLOR is honoured.

    Args:
        quiet: no bars and no messages; results and errors only.
        as_json: results are JSON.
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self._bars: RichProgress | None = None
        self._depth = 0

    def note(self, text: str) -> None:
        """A message about what happens, such as what is reused."""
        if not self.quiet:
            self._write(text)

    def error(self, text: str) -> None:
        """A message that no flag silences."""
        self._write(text)

    def _write(self, text: str) -> None:
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def write(self, text: str) -> None:
        """Text that is the result itself."""
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()

    def json(self, value: Any) -> None:
        """A result for scripts."""
        self.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))

    def table(self, rows: Sequence[Mapping[str, str]], *, title: str = "", right: Sequence[str] = ()) -> None:
        """A result as a table; the columns are the keys of the rows, those in `right` set flush right."""
        from rich import box
        from rich.console import Console as RichConsole
        from rich.table import Table
        from rich.text import Text

        columns = list(dict.fromkeys(name for row in rows for name in row))
        table = Table(box=box.SIMPLE_HEAD)
        for name in columns:
            first = name == columns[0]
            justify: Literal["left", "right"] = "right" if name in right else "left"
            table.add_column(name, justify=justify, overflow="fold", no_wrap=first)
        for row in rows:
            table.add_row(*(Text(row.get(name, "")) for name in columns))
        if title:
            self.write(title)
        if sys.stdout.isatty():
            RichConsole(file=sys.stdout, highlight=False).print(table)
            return
        plain = RichConsole(file=io.StringIO(), width=WIDE, highlight=False, no_color=True)
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
        """What shows units done, seconds and numbers: on a terminal a bar, elsewhere nothing."""
        if not sys.stderr.isatty():
            yield lambda done, seconds, numbers: None
            return
        bars = self._start()
        task = bars.add_task(description, total=total, numbers="", rate="")
        try:
            yield lambda done, seconds, numbers: bars.update(
                task, completed=done, rate=_rate(done, seconds), numbers=numbers
            )
        finally:
            bars.remove_task(task)
            if not bars.task_ids:
                self._bars = None
                bars.stop()

    def _start(self) -> "RichProgress":
        if self._bars is None:
            from rich.console import Console as RichConsole
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bars = Progress(
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
            self._bars.start()
        return self._bars


def _spell(numbers: Mapping[str, float]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items())


def _rate(done: float, seconds: float) -> str:
    return f"{done / seconds:,.3g}/s" if seconds > 0.5 and done else ""


def _ignore(n: int = 1, **numbers: float) -> None:
    pass
