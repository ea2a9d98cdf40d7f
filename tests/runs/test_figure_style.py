"""How figures look: told apart without colour, read in print, and never half a file."""

import pytest

from runs.figures.style import COLOURS, FORMATS, LINES, MARKERS, new_grid, save, series, styled


def test_every_series_has_its_own_marker_and_line():
    assert len(COLOURS) == len(MARKERS) == len(LINES)
    assert len(set(MARKERS)) == len(set(LINES)) == len(MARKERS)
    assert series(len(COLOURS)) == series(0)


@styled
def some_figure():
    figure, ((axes,),) = new_grid(1, 1, 3.5, 2.0)
    axes.plot([1, 2], [3, 4], label="λ", **series(1))
    axes.set_title("a $x^2$ title")
    axes.set_xlabel("weight λ")
    axes.legend()
    return figure


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_figure_is_the_same_file(tmp_path, kind):
    first, second = (save(some_figure(), tmp_path / f"{i}.{kind}", title="t").read_bytes() for i in range(2))
    assert first == second


@pytest.mark.parametrize("kind", FORMATS)
def test_a_figure_that_cannot_be_saved_leaves_the_old_one(tmp_path, kind):
    path = save(some_figure(), tmp_path / f"figure.{kind}")
    before = path.read_bytes()
    broken = some_figure()
    broken.axes[0].set_title(r"$\no_such_command$")
    with pytest.raises(ValueError, match="no_such_command"):
        save(broken, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
