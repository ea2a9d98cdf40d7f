"""The two figures of `transduce quickstart`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from runs.figures.accuracy import accuracy_figure
from runs.figures.descent import descent_figure
from runs.figures.style import save_for_print

if TYPE_CHECKING:
    from runs.cache import Store
    from runs.stages.results import Result
    from runs.tables.table import Table


def quickstart_figures(table: "Table", results: "Sequence[Result]", store: "Store", name: str) -> list[Path]:
    """Draw the accuracies of a table, and the objective at each step of a slow strategy.

    Returns:
        The paths of the files, without their endings.
    """
    pictures = {"accuracy": (accuracy_figure(table), table.title)}
    traced = [(result.config.strategy.name, result.trace) for result in results if result.trace is not None]
    if traced:
        # Prefer the first strategy of which most tasks have not converged after five steps.
        slow = [(name, trace) for name, trace in traced if len(trace) > 5 and np.isnan(trace[5]).mean() < 0.5]
        strategy, trace = (slow or traced)[0]
        pictures["descent"] = (descent_figure(trace, strategy), f"objective of {strategy} at each step")
    for kind, (figure, caption) in pictures.items():
        save_for_print(figure, store.figures, f"{name}-{kind}", title=f"{name}: {kind}", about=caption)
    return [store.figures / f"{name}-{kind}" for kind in pictures]
