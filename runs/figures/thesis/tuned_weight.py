"""Accuracy against the weight of the Laplacian, on validation and on novel classes (thesis, Figure 4.1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clustering.foundation.errors import InputError
from runs.config.configs import TuneConfig
from runs.config.tuning_protocol import steps_of
from runs.figures.drawing import Drawing, plot_names
from runs.figures.style import COLUMN, PAGE, new_grid, styled
from runs.figures.tuning import draw_curve
from runs.stages.lineage import short
from runs.stages.results import in_common
from runs.stages.tuning import Tuning, recorded_tuning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIELD = "weight"
NETWORKS = tuple({"backbone": name} for name in ("resnet18_84", "mobilenet_84", "wrn28_10", "densenet121_84"))


@styled
def weight_figure(tunings: Sequence[Tuning]) -> "Figure":
    """A row for each number of shots, a column for each network: both curves, and the chosen weight."""
    plots = _plots(tunings)
    rows = sorted({row for row, _ in plots}, key=lambda row: (len(row), row))  # 1-shot, 5-shot, 10-shot
    columns = list(dict.fromkeys(column for _, column in plots))
    width = COLUMN if len(columns) == 1 else PAGE
    figure, grid = new_grid(len(rows), len(columns), width, 0.5 + 1.75 * len(rows))
    drawn = {place: grid[rows.index(place[0])][columns.index(place[1])] for place in plots}
    for (row, column), axes in drawn.items():
        tuning = plots[row, column]
        assert tuning.novel is not None
        for i, curve in enumerate((tuning.curves[-1], tuning.novel)):
            name = f"{tuning.curves[-1].step.split if i == 0 else 'novel'} classes"
            draw_curve(axes, [trial.values[FIELD] for trial in curve.trials], curve, name, i)
        chosen = tuning.curves[-1].chosen.values[FIELD]
        axes.axvline(chosen, color="#555555", linewidth=0.8, linestyle=":", label="chosen")
        axes.grid(axis="y", alpha=0.3)
    for row, line in zip(rows, grid, strict=True):
        next(axes for axes in line if axes in drawn.values()).set_ylabel(f"{row} accuracy (%)")
    for column, *pile in zip(columns, *grid, strict=True):
        pile[0].set_title(column)
        next(axes for axes in reversed(pile) if axes in drawn.values()).set_xlabel("weight λ")
    for axes in [axes for line in grid for axes in line if axes not in drawn.values()]:
        axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
    handles, labels = next(iter(drawn.values())).get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def weight_caption(tunings: Sequence[Tuning]) -> str:
    """What is drawn, and on how many tasks."""
    curves = [curve for tuning in tunings for curve in (tuning.curves[-1], tuning.novel) if curve]
    strategies, benchmarks = (
        ", ".join(dict.fromkeys(short(choice) for choice in choices))
        for choices in ([t.config.strategy for t in tunings], [t.config.benchmark for t in tunings])
    )
    chosen_on = " and ".join(
        sorted({f"{t.curves[-1].step.tasks:,} of {t.curves[-1].step.split} classes" for t in tunings})
    )
    novel = " and ".join(sorted({f"{t.config.novel_tasks:,}" for t in tunings}))
    return (
        f"Mean accuracy of {strategies} on {benchmarks} against the weight λ of the neighbour graph, with 95 % "
        f"intervals over tasks; all weights of a curve are on the same tasks: {chosen_on}, where the marked weight was "
        f"chosen, and {novel} of novel classes, evaluated after the choice "
        f"({in_common([trial.result for curve in curves for trial in curve.trials])})."
    )


def places(configs: Sequence[TuneConfig]) -> list[tuple[str, str]]:
    """Row and column of the plot of each config: its shots and its network.

    Raises:
        InputError: two configs have the same plot, or one varies more than the weight.
    """
    known: list[tuple[str, str]] = []
    for config, column in zip(configs, plot_names(configs), strict=True):
        varied = tuple(steps_of(config.tuning, config.strategy)[-1].grids) if config.strategy.grids else ()
        if varied != (FIELD,):
            raise InputError(
                f"the figure shows accuracy against the {FIELD}, and tuning={config.tuning} varies "
                f"{', '.join(varied) or 'nothing'} of {short(config.strategy)} last; give a protocol whose last step "
                f"varies {FIELD} alone"
            )
        options = config.sampler.options
        place = (f"{options['shot']}-shot" if "shot" in options else short(config.sampler), column)
        if place in known:
            raise InputError(f"two curves for the plot of {', '.join(place)}; give one value where there are several")
        known.append(place)
    return known


def _plots(tunings: Sequence[Tuning]) -> dict[tuple[str, str], Tuning]:
    """Tunings by row and column of their plot."""
    return dict(zip(places([tuning.config for tuning in tunings]), tunings, strict=True))


DRAWING = Drawing(
    schema=TuneConfig,
    settings={
        "benchmark": "mini",
        "strategy": "laplacianshot",
        "shot": "1,5",
        "tuning": "papers",
        "novel_tasks": "10000",
    },
    networks=NETWORKS,
    also={"tasks": "novel_tasks"},
    check=places,
    read=recorded_tuning,
    run_ids=lambda tuning: tuning.run_ids,
    draw=weight_figure,
    caption=weight_caption,
)
