"""Bars, tables and questions: what the console says, on a terminal and elsewhere."""

from runs.console import output as console


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
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if rows[0]["strategy"] in line and "50.00" in line]
    assert all(word in " ".join(lines) for word in ("title", "accuracy", "several", "words"))
