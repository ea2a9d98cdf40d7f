"""What a method has to have whose fit is a training: curves, a state to go on from, and weights that are kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from clustering.deep.settings import Advance, Log, Observe


@runtime_checkable
class StepwiseMethod(Protocol):
    """A clusterer of scikit-learn's kind, with a parameter `n_clusters`, that learns features in steps.

    After `fit` it has `labels_` (N,) 0..K-1 and `n_iter_`, the steps. `XSDC` is one.
    """

    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        folder: str | Path | None = None,
        log: Log | None = None,
        observe: Observe | None = None,
        advance: Advance | None = None,
    ) -> Any:
        """Learn features and clusters of the rows of X (N, D); by `partial_labels` and more where it takes them.

        Args:
            folder: gets the state of the training, from which another fit of the same goes on.
            log: takes numbers by name, live, and the step, from 1.
            observe: makes numbers for the log of the clusters (N,) of points, -1 of those that have none.
            advance: counts steps, also those that were found done.
        """
        ...

    def planned_steps(self, partial_labels: ArrayLike | None = None) -> int:
        """How many steps a fit would take, of points with these labels (N,), -1 where unknown."""
        ...

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, F) learned features of the rows of X (n, D)."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """All that was learned, by name."""
        ...

    def with_weights(self, weights: Mapping[str, Tensor]) -> Any:
        """Itself, with what another fit learned, to predict and transform."""
        ...
