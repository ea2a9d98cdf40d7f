"""What estimators with one prototype per cluster have in common: new points go to the nearest one."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clustering.estimator_input import Device, checked_rows
from clustering.foundation.errors import InputError
from clustering.optimiser.rows import Rows, nearest_centres


class PrototypeDistances(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """`transform` of an estimator with `cluster_centers_` (K, D)."""

    cluster_centers_: NDArray[Any]
    _fitted: Rows  # of an estimator with a graph

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) Euclidean distance of each row of X (n, D) to each of `cluster_centers_`."""
        rows = self._new_rows(X).cpu().numpy()
        return np.asarray(pairwise_distances(rows, self.cluster_centers_.astype(rows.dtype)))

    def _rows_for(self, by: str) -> Rows:
        """The fitted rows, which new points are compared with if they are assigned by the graph."""
        if by not in ("graph", "prototypes"):
            raise InputError(f"by must be graph or prototypes, not {by!r}")
        rows: Rows = self._fitted
        if by == "graph" and not len(rows.values):
            raise InputError('the model was fitted with keep_graph=False: predict with by="prototypes"')
        return rows

    def _new_rows(self, X: ArrayLike) -> Tensor:
        """New rows (n, D), where the prototypes are."""
        check_is_fitted(self)
        device: Device = getattr(self, "device", "cpu")
        return checked_rows(self, X, reset=False, normalize=getattr(self, "normalize", None), device=device)


class NearestPrototype(PrototypeDistances):
    """`predict` and `transform` of an estimator whose clusters are the points nearest to each prototype."""

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """(n,) index of the prototype nearest to each row of X (n, D)."""
        rows = self._new_rows(X)
        return nearest_centres(rows, torch.from_numpy(self.cluster_centers_).to(rows)).cpu().numpy()
