"""Which points to label next: active learning for batches, also before there is any label."""

from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from clustering.foundation.errors import InputError, unknown
from fsl.transductive_classifier import TransductiveClassifier

Selection = Literal["variance", "random", "margin"]

_CANDIDATES = 20_000
"""Points among which `variance` chooses a batch: those with the largest gain at its start. The gains of the others
cannot overtake them in one batch, except in rare cases."""

_BLOCK = 8192  # points processed at a time


def next_to_label(
    classifier: TransductiveClassifier,
    n: int,
    *,
    method: Selection = "variance",
    exclude: ArrayLike = (),
    random_state: int = 0,
) -> NDArray[np.int64]:
    """Indices of the n unlabelled points that should be labelled next, the most important first; all if they are fewer.

    Before any label is given, call `classifier.prepare(X)` instead of `fit`. `margin` then chooses at random.

    - `variance`: the points whose labels lower the expected variance of the predictions most,

          gain(p) = sum_q u_q (f_q^T C f_p)^2 / (1 + f_p^T C f_p),   C = (A^T A + penalty I)^-1,

      where f are the smoothed features and A those of the labelled points (see `smoothed_ridge`), and
      u_q = 1 - sum_k s_qk^2 is the expected error of a class drawn from the distribution of q; 1 before there are
      labels. Without u it is V-optimality (Ji and Han 2012). A batch is chosen greedily: C is updated for each chosen
      point, since the gain does not depend on its label.
    - `random`: a simple random sample.
    - `margin`: the smallest difference between the two largest probabilities (Scheffer et al. 2001).

    docs/how_to/label-a-pile.md has more about `variance`.

    Args:
        classifier: after `fit` or `prepare`.
        n: number of points >= 1.
        method: see above.
        exclude: indices of points that are not to be chosen, such as skipped ones.
        random_state: seed.

    Raises:
        InputError: the method is unknown, n is not positive, or an excluded index is out of range.
    """
    if method not in get_args(Selection):
        raise unknown("selection method", str(method), list(get_args(Selection)))
    if not isinstance(n, (int, np.integer)) or n < 1:
        raise InputError(f"n must be an integer of at least 1, not {n!r}")
    points = classifier.smoothed()
    count = points.levels[0].shape[1]
    excluded = np.asarray(exclude).ravel()
    if len(excluded) and (excluded.dtype.kind not in "iu" or not 0 <= excluded.min() <= excluded.max() < count):
        raise InputError(f"exclude must be indices of the {count} points; of a mask, give np.flatnonzero(mask)")
    excluded = excluded.astype(np.int64)
    labelled = getattr(classifier, "labelled_", np.empty(0, np.int64))
    free = np.ones(count, dtype=bool)
    free[labelled] = free[excluded] = False
    distributions = getattr(classifier, "label_distributions_", None)
    n = min(n, int(free.sum()))
    if not n:
        return np.empty(0, np.int64)
    if method == "variance":
        return _variance(classifier, labelled, free, distributions, n)
    if method == "margin" and distributions is not None and distributions.shape[1] > 1:
        best = np.partition(distributions, -2, axis=1)[:, -2:]
        return np.argsort(np.where(free, best[:, 1] - best[:, 0], np.inf), kind="stable")[:n]
    return np.random.default_rng(random_state).permutation(np.flatnonzero(free))[:n]


def _variance(
    classifier: TransductiveClassifier,
    labelled: NDArray[np.integer],
    free: NDArray[np.bool_],
    distributions: NDArray[np.floating] | None,
    n: int,
) -> NDArray[np.int64]:
    """The n free points with the largest gains in turn, see `next_to_label`."""
    level, penalty = classifier.chosen()
    features = classifier.smoothed().levels[level][0]
    dtype = features.dtype
    weights = torch.ones(len(features), dtype=dtype)
    if distributions is not None:
        uncertain = 1 - np.square(distributions).sum(axis=1)
        if uncertain.max() > 0:
            weights = torch.from_numpy(uncertain).to(dtype)
    weights[torch.from_numpy(labelled)] = 0
    known = features[torch.from_numpy(labelled)].double()
    dimensions = torch.eye(features.shape[1], dtype=torch.float64)
    covariance = torch.linalg.inv(known.T @ known + penalty * dimensions)
    spread, blocks = torch.zeros_like(dimensions), [slice(i, i + _BLOCK) for i in range(0, len(features), _BLOCK)]
    for block in blocks:
        part = features[block].double()
        spread += (part * weights[block, None]).T @ part
    reached, variance = [], []
    inside = (covariance @ spread @ covariance).to(dtype)
    for block in blocks:
        part = features[block]
        reached.append(((part @ inside) * part).sum(dim=1))
        variance.append(((part @ covariance.to(dtype)) * part).sum(dim=1))
    gains = torch.cat(reached) / (1 + torch.cat(variance))
    gains[~torch.from_numpy(free)] = -torch.inf
    places = gains.topk(min(max(_CANDIDATES, n), int(free.sum()))).indices
    rows, reach, own = features[places], torch.cat(reached)[places], torch.cat(variance)[places]
    open_ = torch.ones(len(places), dtype=torch.bool)
    chosen = []
    for _ in range(n):
        best = int(torch.where(open_, reach / (1 + own), -torch.inf).argmax())
        chosen.append(int(places[best]))
        open_[best] = False
        # The update of C for a new row f: C - c c^T / s with c = C f and s = 1 + f^T C f (Sherman and Morrison 1950).
        direction = covariance @ rows[best].double()
        size = 1 + rows[best].double() @ direction
        through = spread @ direction
        back = covariance @ through
        along, across = rows @ direction.to(dtype), rows @ back.to(dtype)
        covariance = covariance - torch.outer(direction, direction) / size
        scale = float(size)
        reach = reach - 2 * along * across / scale + along.square() * float(direction @ through) / scale**2
        own = own - along.square() / scale
    return np.array(chosen)
