"""Bars, tables and questions: what the console says, on a terminal and elsewhere."""

import io
import re
import subprocess
import sys
import threading

import pytest

from runs.console import output as console


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bars_move_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    screen = console.Console()
    with screen.track("training", 3) as outer:
        screen.note("a [bold] note")
        with screen.track("validating", 2) as inner:
            inner(2, accuracy=0.25)
        outer(3, train_loss=1.5)
    text = shown.getvalue()
    assert "training" in text
    assert "validating" in text
    assert "training: 3 of 3" in text
    assert "validating: " not in text
    assert "train loss 1.5" in text
    assert "a [bold] note" in text
    assert "\x1b" in text


def test_what_takes_long_says_how_far_it_is_where_no_bar_moves(monkeypatch):
    said, log = threading.Semaphore(0), io.StringIO()

    class Log(io.StringIO):
        def write(self, text):
            log.write(text)
            said.release()
            return len(text)

    monkeypatch.setattr(console, "PATIENCE", 0.01)
    monkeypatch.setattr(sys, "stderr", Log())
    with console.Console().track("fine-tuning", 2) as advance:
        assert said.acquire(timeout=60)
        advance(1, accuracy=0.5)
        while "1 of 2" not in log.getvalue():
            assert said.acquire(timeout=60)
    first, *_, last = log.getvalue().splitlines()
    assert first.startswith("fine-tuning: 0 of 2 after 0 s")
    assert re.match("fine-tuning: 1 of 2 in .* s  accuracy 0.5", last)


def test_a_name_cannot_control_the_terminal(capsys):
    """The name of an imported run may hold an escape sequence, which could clear the screen."""
    console.Console().note("run \x1b[2Ja\x9b1m\r of\t\n  two lines")
    assert capsys.readouterr().err == "run ?[2Ja?1m? of\t\n  two lines\n"


def test_a_bar_ends_with_an_error(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    screen = console.Console()
    with pytest.raises(ZeroDivisionError), screen.track("training", 3):
        raise ZeroDivisionError
    assert screen._bars is None


@pytest.mark.parametrize(
    ("typed", "meant"), [("\n", True), ("Y\n", True), (" yes\n", True), ("n\n", False), ("", False)]
)
def test_a_question_is_answered(monkeypatch, capsys, typed, meant):
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert console.Console(quiet=True).agree("continue?") is meant
    assert "continue? [Y/n]" in capsys.readouterr().err


def test_the_time_left_needs_no_record():
    code = (
        "import sys\nfrom runs.console.output import _after\nassert _after(1, 3, 60.0) == '60 s, about 2 min left'\n"
        "assert not {'runs.record.query', 'runs.cache', 'runs.stages.lineage'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_table_on_a_screen_that_is_too_narrow(monkeypatch, capsys):
    rows = [{"strategy": "a_long_name_of_a_strategy", "accuracy": "50.00", "remark": "several words"}]
    console.Console().table(rows, title="title")
    assert "a_long_name_of_a_strategy   50.00" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "30")
    console.Console().table(rows, title="title")
    shown = capsys.readouterr().out
    assert shown.splitlines() == ["title", rows[0]["strategy"], "  accuracy: 50.00", "  remark: several words"]
