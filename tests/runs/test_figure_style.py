"""How figures look: told apart without colour, read in print, and never half a file."""

import pytest

from runs.figures.style import COLOURS, FORMATS, LINES, MARKERS, new_grid, save, save_for_print, series, styled


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


@pytest.fixture
def matplotlib_of_the_user():
    """Settings of matplotlib as somebody may have them."""
    from matplotlib import rc_context

    with rc_context({"font.size": 30.0, "pdf.fonttype": 3, "svg.fonttype": "path", "axes.facecolor": "red"}):
        yield


@pytest.mark.usefixtures("matplotlib_of_the_user")
@pytest.mark.slow
def test_letters_are_letters_and_can_be_read_in_print(tmp_path):
    from matplotlib import rcParams
    from matplotlib.text import Text
    from PIL import Image

    figure = some_figure()
    assert figure.axes[0].get_facecolor()[:3] == (1, 1, 1)
    sizes = {text.get_fontsize() for text in figure.findobj(Text) if text.get_text()}
    assert 6.5 <= min(sizes) <= max(sizes) <= 9
    paths = save_for_print(figure, tmp_path / "new" / "folder", "name", title="A title", about="With λ and ± in it")
    pdf, svg, png = (path.read_bytes() for path in paths)
    assert b"/Subtype /Type3" not in pdf
    assert b"/Subtype /CIDFontType2" in pdf
    assert "weight λ</text>" in svg.decode()
    assert "With λ and ± in it" in svg.decode()
    with Image.open(paths[2]) as image:
        assert image.size == (1050, 600)
        assert image.text["Description"] == "With λ and ± in it"
        assert image.text["Title"] == "A title"
    assert png.startswith(b"\x89PNG")
    assert rcParams["font.size"] == 30.0, "the user's own settings are left alone"


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
