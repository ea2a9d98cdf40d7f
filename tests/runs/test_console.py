"""Bars, tables and questions: what the console says, on a terminal and elsewhere."""

import io
import re
import sys

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
    with pytest.raises(ZeroDivisionError), screen.track("training", 3):
        raise ZeroDivisionError
    assert screen._bars is None


def test_what_takes_long_says_how_far_it_is_where_no_bar_moves(monkeypatch, capsys):
    monkeypatch.setattr(console, "PATIENCE", 0)
    with console.Console().track("fine-tuning", 9) as advance:
        for _ in range(9):
            advance(1, accuracy=0.5)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "fine-tuning: 1 of 9 after 0:00:00, about 0:00:00 left  accuracy 0.5"
    assert re.match("fine-tuning: 9 of 9 in .* s  accuracy 0.5", last)


def test_a_name_cannot_control_the_terminal(capsys):
    """The name of an imported run may hold an escape sequence, which could clear the screen."""
    console.Console().note("run \x1b[2Ja\x9b1m\r of\t\n  two lines")
    assert capsys.readouterr().err == "run ?[2Ja?1m? of\t\n  two lines\n"


def test_a_table_on_a_screen_that_is_too_narrow(monkeypatch, capsys):
    rows = [{"strategy": "a_long_name_of_a_strategy", "accuracy": "50.00", "remark": "several words"}]
    console.Console().table(rows, title="title")
    assert "a_long_name_of_a_strategy   50.00" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "30")
    console.Console().table(rows, title="title")
    shown = capsys.readouterr().out
    assert shown.splitlines() == ["title", rows[0]["strategy"], "  accuracy: 50.00", "  remark: several words"]
