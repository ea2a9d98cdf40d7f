"""Pseudo-labels of entropy clustering (Zhang and Boykov): close to predictions, without empty classes.

For predictions p, a prior u over classes and a weight lambda they minimise, over rows y_i of the simplex,

    mean_i <p_i, -log y_i> + lambda KL(u || ybar),    ybar the mean of all y,

which is convex. Rows with known class are one-hot; they count in ybar, but not in the first mean. With w_k = lambda u_k
/ ybar_k the minimum is y_ik = p_ik / (c_i - w_k), where c_i > max_k w_k is such that the row sums to one.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from clustering.optimiser.alternation import Clamp

FLOOR = 1e-8
"""Lower bound of predictions: a class with p = 0 could never be assigned, however empty it is."""


class PseudoLabels(NamedTuple):
    """Result of a solver.

    Attributes:
        labels: (…, N, K) y, rows sum to one, known rows one-hot.
        iterations: (…) int64, number of iterations.
        converged: (…) bool, whether the tolerance was met.
    """

    labels: Tensor
    iterations: Tensor
    converged: Tensor


def fair_objective(
    labels: Tensor, log_probabilities: Tensor, fairness: float, prior: Tensor, known: Clamp | None = None
) -> Tensor:
    """(…) objective of the labels (…, N, K); for the arguments see `em_pseudo_labels`."""
    problem = _Problem.of(log_probabilities, fairness, prior, known)
    y = labels.mT.reshape(problem.predictions.shape)
    misfit = torch.where(problem.unknown > 0, -problem.predictions * y.log(), 0).sum((1, 2))
    divergence = (problem.prior * (problem.prior / y.mean(2, keepdim=True)).log()).sum((1, 2))
    objective = misfit / problem.unknown.sum((1, 2)).clamp_min(1) + fairness * divergence
    return objective.reshape(problem.shape[:-2])


def em_pseudo_labels(
    log_probabilities: Tensor,
    fairness: float,
    prior: Tensor,
    *,
    known: Clamp | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 1000,
) -> PseudoLabels:
    """Pseudo-labels by expectation maximisation (eq. 45-46): y <- (p + r) / (1 + sum_k r_k), r_ik = lambda u_k y_ik /
    ybar_k.

    No step raises the objective. The proportions ybar and the objective converge in a few steps. y itself takes
    hundreds, because errors that do not change ybar shrink only by lambda / (1 + lambda) per step, 0.99 at the
    paper's weight. A loose tolerance therefore returns reweighted predictions rather than the minimum.

    Args:
        log_probabilities: (…, N, K) log p, rows normalised; p is floored at `FLOOR`.
        fairness: lambda >= 0; 100 in the paper. At 0 the labels are the predictions.
        prior: (…, K) u > 0, summing to one.
        known: (mask (…, N), labels (…, N)) of rows with known class.
        tolerance: largest change of an entry of y in the last step.
        max_iterations: maximum number of steps.

    Returns:
        The labels of each problem after its own last step; a step is a few passes over N K numbers.
    """
    problem = _Problem.of(log_probabilities, fairness, prior, known)
    p, y = problem.predictions, problem.predictions
    steps = torch.zeros(len(p), dtype=torch.int64, device=p.device)
    active = torch.full_like(steps, fairness > 0, dtype=torch.bool)
    pull = problem.share * problem.ceiling
    for _ in range(max_iterations):
        if not active.any():
            break
        r = pull / y.mean(2, keepdim=True) * y  # one-hot in known rows, which therefore stay one-hot
        new = (p + r).div_(1 + r.sum(1, keepdim=True))
        change = (new - y).abs_().amax((1, 2))
        y = torch.where(active[:, None, None], new, y)
        steps += active
        active = active & (change > tolerance)
    return problem.found(y, steps, ~active)


def exact_pseudo_labels(
    log_probabilities: Tensor,
    fairness: float,
    prior: Tensor,
    *,
    known: Clamp | None = None,
    tolerance: float = 1e-12,
    max_iterations: int = 40,
) -> PseudoLabels:
    """Pseudo-labels by Newton steps on the K numbers log(u_k / ybar_k), the only unknowns once the rows are solved.

    The dual is smooth and concave in them, its Hessian is K x K, and each row is a secular equation. For saturated
    predictions the dual is nearly piecewise linear, with kinks as narrow as the root of the smallest probability.
    Problems that a few steps do not solve are therefore solved first with probabilities floored at 0.01, and then with
    lower floors, each from the previous solution. All computations are in float64.

    Args:
        log_probabilities, fairness, prior, known: as in `em_pseudo_labels`.
        tolerance: largest distance of the objective from its minimum, as a share of 1 + lambda, according to the dual
            bound.
        max_iterations: maximum number of Newton steps per floor; two to ten are usual.

    Returns:
        The labels; a step costs N K^2 multiply-adds and about thirty passes over N K numbers.
    """
    problem = _Problem.of(log_probabilities.double(), fairness, prior, known)
    y, proportions = problem.predictions, problem.predictions.mean(2, keepdim=True)
    steps = torch.zeros(len(y), dtype=torch.int64, device=y.device)
    left = (problem.share[:, 0, 0] > 0) & (fairness > 0)
    first = (problem.prior / ((proportions + problem.ceiling) / (1 + fairness))).log()
    for floors, max_steps in (((FLOOR,), min(_EASY, max_iterations)), (_FLOORS, max_iterations)):
        log_ratios, hard = first, left
        for floor in floors:
            if not hard.any():
                break
            threshold = (tolerance if floor == FLOOR else max(tolerance, _ROUGH)) * (1 + fairness)
            point, taken, left = _climb(problem.floored(floor), log_ratios, hard, threshold, max_steps)
            log_ratios, steps = point.log_ratios, steps + taken
        if hard.any():
            y = torch.where(problem.unknown * hard[:, None, None] > 0, point.labels, y)
    return problem.found(y.to(log_probabilities.dtype), steps, ~left)


_EASY = 8
"""Number of steps that suffice for predictions that are not saturated."""

_FLOORS = (1e-2, 1e-4, 1e-6, FLOOR)
"""Floors of the predictions, in order."""

_ROUGH = 1e-5
"""Tolerance for all floors except the last."""

_FARTHEST = 3.0
"""Largest change of the logarithm of a ratio in a step."""

_HALVINGS = 40
"""Maximum number of halvings of a step that overshoots the maximum of the dual."""

_ROW_STEPS = 60
"""Maximum number of steps for the secular equation of a row, which converge quadratically from any start."""


class _Point(NamedTuple):
    """A point at which the dual is evaluated.

    Attributes:
        log_ratios: (B, K, 1) estimate of log(u / ybar), accurate for ratios near 1.
        labels: (B, K, N) y, the minimiser of each row for these ratios.
        slack: (B, 1, N) c - max_k w_k.
        slope: (B, K, 1) lambda (u - ratio ybar), the gradient of the dual by the log ratios.
    """

    log_ratios: Tensor
    labels: Tensor
    slack: Tensor
    slope: Tensor


class _Problem(NamedTuple):
    """B problems with classes before points, since sums over long rows are much faster than over short ones.

    The dual of a problem is mean_i min_y (<p_i, -log y> - <w, y>) + lambda <u, log ratio>, up to constants and a term
    for the known rows, with w = share * lambda * ratio.

    Attributes:
        predictions: (B, K, N) p, at least `FLOOR`; one-hot in known rows.
        unknown: (B, 1, N) 1 for rows with unknown class, else 0.
        share: (B, 1, 1) share of unknown rows, the factor by which a change of their mean changes ybar.
        prior: (B, K, 1) u.
        fairness: lambda.
        shape: shape of the result.
    """

    predictions: Tensor
    unknown: Tensor
    share: Tensor
    prior: Tensor
    fairness: float
    shape: torch.Size

    @classmethod
    def of(cls, log_probabilities: Tensor, fairness: float, prior: Tensor, known: Clamp | None) -> "_Problem":
        shape = log_probabilities.shape
        points, classes = shape[-2:]
        p = log_probabilities.mT.exp().reshape(-1, classes, points).clamp_min(FLOOR)
        p = p / p.sum(1, keepdim=True)
        u = prior.to(p).expand(*shape[:-2], classes).reshape(-1, classes, 1)
        unknown = torch.ones_like(p[:, :1])
        if known is not None:
            mask, labels = (part.expand(shape[:-1]).reshape(-1, 1, points) for part in known)
            one_hot = labels == torch.arange(classes, device=p.device)[:, None]
            p, unknown = torch.where(mask, one_hot.to(p.dtype), p), (~mask).to(p.dtype)
        return cls(p, unknown, unknown.mean(2, keepdim=True), u, fairness, shape)

    def found(self, y: Tensor, iterations: Tensor, converged: Tensor) -> PseudoLabels:
        batch = self.shape[:-2]
        return PseudoLabels(y.mT.reshape(self.shape), iterations.reshape(batch), converged.reshape(batch))

    def floored(self, floor: float) -> "_Problem":
        """The same problem with predictions floored at this value."""
        p = self.predictions.clamp_min(floor)
        return self._replace(predictions=torch.where(self.unknown > 0, p / p.sum(1, keepdim=True), self.predictions))

    @property
    def ceiling(self) -> Tensor:
        """(B, K, 1) lambda u."""
        return self.fairness * self.prior

    def at(self, log_ratios: Tensor, slack: Tensor | None = None) -> _Point:
        """Solve every row, 1 = sum_k p_k / (slack + e_k) with e_k = max w - w_k.

        The reciprocal of the right-hand side is concave and increases with the slack, so Newton steps on it approach
        the solution from below from any start. The solution is at least max_k (p_k - e_k), where a single term equals
        1.
        """
        p, highest = self.predictions, log_ratios.amax(1, keepdim=True)
        e = self.share * self.fairness * highest.exp() * -(log_ratios - highest).expm1()
        lowest = (p - e).amax(1, keepdim=True).clamp_min(0.1 * FLOOR)  # known rows may have no root
        slack = lowest if slack is None else torch.maximum(slack, lowest)
        for _ in range(_ROW_STEPS):
            y = p / (slack + e)
            total = y.sum(1, keepdim=True)
            excess = total - 1
            slack = torch.maximum(slack + total * excess / (y / (slack + e)).sum(1, keepdim=True), lowest)
            if not bool((excess * self.unknown).abs().amax() > 1e-8):  # the last step squares this error
                break
        y = p / (slack + e)
        y = y / y.sum(1, keepdim=True)
        proportions = torch.where(self.unknown > 0, y, p).mean(2, keepdim=True)
        return _Point(log_ratios, y, slack, self.ceiling - self.fairness * log_ratios.exp() * proportions)

    def gap(self, point: _Point) -> Tensor:
        """(B,) objective of the labels minus the dual value, an upper bound on the distance from the minimum.

        It is lambda sum_k u_k (x_k - 1 - log x_k) with x = ratio ybar / u.
        """
        error = -point.slope / self.ceiling
        return (self.ceiling * (error - error.clamp_min(-1 + 1e-15).log1p())).sum((1, 2))

    def newton(self, point: _Point) -> Tensor:
        """(B, K, 1) Newton step of the dual.

        The mean label of a class changes with w by mean_i q_ik (1_kl - q_il / sum_m q_im), q = y^2 / p. This is the
        Laplacian of the graph that joins classes by the points for which they compete, and is written as such to avoid
        cancellation.
        """
        q = point.labels.square() / self.predictions.clamp_min(FLOOR) * self.unknown
        total = q.sum(1, keepdim=True).clamp_min(FLOOR)
        shared = torch.bmm(q / total, q.mT) / self.unknown.sum(2, keepdim=True).clamp_min(1)
        shared.diagonal(dim1=1, dim2=2).zero_()
        w = self.share * self.fairness * point.log_ratios.exp()
        curvature = w * (torch.diag_embed(shared.sum(2)) - shared) * w.mT
        curvature.diagonal(dim1=1, dim2=2).add_((self.ceiling - point.slope)[..., 0])
        step: Tensor = torch.linalg.solve_ex(curvature, point.slope).result
        return step


def _climb(
    problem: _Problem, log_ratios: Tensor, left: Tensor, tolerance: float, max_iterations: int
) -> tuple[_Point, Tensor, Tensor]:
    """Maximise the dual until the gap is within the tolerance, each problem independently; returns the last point, and
    (B,) the numbers of steps and whether problems have not converged.

    A step after which the dual decreases steeply has overshot the maximum and is halved. Values are not compared,
    because their rounding would end the iteration too early.
    """
    point, steps = problem.at(log_ratios), torch.zeros_like(left, dtype=torch.int64)
    for _ in range(max_iterations):
        left = left & (problem.gap(point) > tolerance)
        if not left.any():
            break
        step = problem.newton(point)
        length = left[:, None, None] * (_FARTHEST / step.abs().amax(1, keepdim=True)).clamp_max(1)
        ascent = (point.slope * step).sum(1, keepdim=True)
        for _ in range(_HALVINGS):
            trial = problem.at(point.log_ratios + length * step, point.slack)
            too_far = (length > 0) & ((trial.slope * step).sum(1, keepdim=True) < -0.5 * ascent)
            if not too_far.any():
                break
            length = torch.where(too_far, 0.5 * length, length)
        point = _Point(*(torch.where(left[:, None, None], *pair) for pair in zip(trial, point, strict=True)))
        steps += left
    return point, steps, left
