"""Protocol of methods that train in steps: logged curves, a resumable state, and weights that can be stored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from clustering.deep.settings import Observe
from clustering.foundation.progress import Advance, Log


@runtime_checkable
class StepwiseMethod(Protocol):
    """A clusterer with the scikit-learn interface and a parameter `n_clusters`, which learns features in steps.

    After `fit` it has `labels_` (N,) in 0..K-1 and `n_iter_`, the number of steps. `XSDC` is an example.
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
        """Learn features and clusters of the rows of X (N, D); a method may accept `partial_labels` and other keywords.

        Args:
            folder: directory for the training state, from which a later fit with the same settings resumes.
            log: called during training with a dict of named values and the step, counted from 1.
            observe: computes values for the log from the clusters (N,) of the points, -1 for points without one.
            advance: called with the number of steps done, including those that a resumed fit finds done.
        """
        ...

    def planned_steps(self, partial_labels: ArrayLike | None = None) -> int:
        """Number of steps of a fit with these labels (N,), -1 where unknown."""
        ...

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, F) learned features of the rows of X (n, D)."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """All learned tensors by name."""
        ...

    def with_weights(self, weights: Mapping[str, Tensor]) -> Any:
        """This estimator with the weights of another fit, able to predict and transform."""
        ...
