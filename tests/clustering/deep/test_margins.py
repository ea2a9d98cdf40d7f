"""What entropy clustering is and is not: against K-means, and in the limit of a small weight of the norm (claims of
Zhang and Boykov, sections 3 and 4). On two thin bars, whose widest direction is across neither."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.cluster import KMeans
from torch import Tensor

from clustering.deep import losses


def bars(points: int = 120) -> tuple[Tensor, Tensor]:
    """(N, 2) points of -6..6 by 0.3..1.3 and of the mirrored bar, and (N,) which."""
    rng = np.random.default_rng(0)
    upper = np.arange(points) % 2
    heights = np.where(upper == 1, 1, -1) * rng.uniform(0.3, 1.3, points)
    return torch.from_numpy(np.stack([rng.uniform(-6, 6, points), heights], axis=1)), torch.from_numpy(upper)


def log_p(points: Tensor, v: Tensor) -> Tensor:
    """(N, 2) under a classifier v (3,) of two classes, its bias last: the logistic model of the theorems."""
    x = points @ v[:2] + v[2]
    return torch.stack([torch.nn.functional.logsigmoid(-x), torch.nn.functional.logsigmoid(x)], dim=-1)


def descend(value: object, start: Tensor) -> tuple[float, Tensor]:
    """The local minimum of a function of v from `start` on."""

    def with_slope(v: np.ndarray) -> tuple[float, np.ndarray]:
        held = torch.from_numpy(v).requires_grad_()
        found = value(held)  # type: ignore[operator]
        (slope,) = torch.autograd.grad(found, held)
        return float(found.detach()), slope.numpy()

    found = optimize.minimize(with_slope, start.numpy(), jac=True, method="BFGS", options={"gtol": 1e-10})
    return float(found.fun), torch.from_numpy(found.x)


def clustered(gamma: float, start: list[float]) -> tuple[float, Tensor]:
    """The regularised entropy loss, equation 14, from `start` on: its value and the labels."""
    points, _ = bars()
    value, v = descend(
        lambda v: gamma * v[:2].square().sum() + losses.information(log_p(points, v)),
        torch.tensor(start, dtype=torch.float64),
    )
    return value, log_p(points, v).argmax(-1)


UPPER, LEFT = [0.0, 20.0, 0.0], [3.0, 0.0, 0.0]


def test_elongated_clusters_are_not_those_of_k_means() -> None:
    """E2 and E6: K-means cuts the long axis; so does the entropy where the norm weighs much, and not where little."""
    points, upper = bars()
    assert (torch.from_numpy(KMeans(2, n_init=5, random_state=0).fit_predict(points)) == upper).double().mean() < 0.6
    small, large = ({"bars": clustered(gamma, UPPER), "halves": clustered(gamma, LEFT)} for gamma in (1e-5, 1e-2))
    assert bool((small["bars"][1] == upper).all())
    assert float((small["halves"][1] == upper).double().mean()) == pytest.approx(0.5, abs=0.1)
    assert -math.log(2) < small["bars"][0] < small["halves"][0]
    assert large["halves"][0] <= large["bars"][0] + 1e-9  # that of the bars, or it has gone over to the halves
    assert float((large["halves"][1] == upper).double().mean()) == pytest.approx(0.5, abs=0.1)
    held = losses.information(log_p(points, torch.tensor([0.0, 3.0, 0.0], dtype=torch.float64))) + 1e-2 * 9
    assert large["halves"][0] < float(held)


def test_the_equivalence_with_soft_k_means_drops_the_denominator() -> None:
    """E3: with log p linear in v the cross-entropy is least for any labels at v = mean (y x) / (2 gamma) and leaves a
    quadratic in the class sums, as K-means has; with the true log-softmax the two labelings change places."""
    points, upper = bars()
    points = points - points.mean(0)
    halves = (points[:, 0] > 0).long()
    sums = {name: torch.nn.functional.one_hot(y, 2).double().mT @ points / 120 for name, y in
            (("bars", upper), ("halves", halves))}  # fmt: skip
    linear = {name: -float(total.square().sum()) / 4 for name, total in sums.items()}  # of gamma = 1
    assert linear["halves"] < linear["bars"]

    def fitted(y: Tensor, start: list[float], gamma: float = 1e-5) -> float:
        one_hot = torch.nn.functional.one_hot(y, 2).double()
        return descend(
            lambda v: gamma * v[:2].square().sum() + losses.cross_entropy(log_p(points, v), one_hot),
            torch.tensor(start, dtype=torch.float64),
        )[0]

    # both labelings are separable; halves of touching points have next to no margin
    assert fitted(upper, [0.0, 5.0, 0.0]) < fitted(halves, [5.0, 0.0, 0.0])


def largest_margin(points: Tensor, labels: Tensor) -> float:
    """By linear programming over directions: the distance between the classes' hulls, halved."""
    signs = np.where(labels.numpy() == 1, 1.0, -1.0)

    def margin(angle: float) -> float:
        along = points.numpy() @ np.array([np.cos(angle), np.sin(angle)])
        return float((along[signs > 0].min() - along[signs < 0].max()) / 2)

    return max(margin(angle) for angle in np.linspace(0, np.pi, 20_001))


@pytest.mark.parametrize(
    "order", [1.0, math.inf, *(pytest.param(order, marks=pytest.mark.slow) for order in (0.5, 2.0, 5.0))]
)
def test_the_margin_grows_to_the_largest_as_the_norm_weighs_less(order: float) -> None:
    """E4, theorems 2 and 3, with the labeling held: the approach is logarithmic, so a trend and a loose bound."""
    points, upper = bars()
    best = largest_margin(points, upper)
    signs = 2.0 * upper - 1
    v = torch.tensor([0.0, 3.0, 0.0], dtype=torch.float64)
    margins, norms = [], []
    for gamma in (1e-2, 1e-3, 1e-5, 1e-8):
        _, v = descend(
            lambda v, gamma=gamma: gamma * v[:2].square().sum() + losses.mean_entropy(log_p(points, v), order), v
        )
        margins.append(float((signs * (points @ v[:2] + v[2])).min() / v[:2].norm()))
        norms.append(float(v[:2].norm()))
    assert all(before < after for before, after in pairwise(margins))
    assert 0.9 * best < margins[-1] <= best + 1e-9
    assert all(before < after for before, after in pairwise(norms))


@pytest.mark.parametrize("order", [0.5, 2.0, math.inf])
def test_an_entropy_is_a_loss_of_the_unsigned_margin_with_an_exponential_tail(order: float) -> None:
    """Properties 1 and 2: R(p) depends on |x| alone, and g(0.9 x) / g(x) grows without bound."""
    x = torch.tensor([0.5, 1.0, 4.0, 8.0, 16.0], dtype=torch.float64)

    def g(x: Tensor) -> Tensor:
        return torch.stack([losses.mean_entropy(torch.nn.functional.logsigmoid(
            torch.stack([one, -one], -1)[None]), order) for one in x])  # fmt: skip

    torch.testing.assert_close(g(x), g(-x))
    assert bool((g(x).diff() < 0).all())
    ratios = g(0.9 * x) / g(x)
    assert bool((ratios.diff() > 0).all())


def test_without_a_norm_the_loss_has_no_minimum() -> None:
    """E5: along any separating direction a longer v is always better, wherever the boundary is."""
    points, upper = bars()
    for direction in ([0.0, 1.0, 0.0], [0.02, 1.0, 0.0], [0.0, 1.0, 0.2]):
        unit = torch.tensor(direction, dtype=torch.float64)
        assert torch.equal(log_p(points, unit).argmax(-1), upper)
        values = [float(losses.information(log_p(points, length * unit))) for length in (1, 10, 100, 1000)]
        assert all(before > after for before, after in pairwise(values))
        assert values[-1] == pytest.approx(-math.log(2), abs=1e-3)


def test_a_penalty_of_the_bias_breaks_the_margin_far_from_the_origin() -> None:
    """Why `margin_norm` takes the weights without bias."""
    points, upper = bars()
    far = points + torch.tensor([0.0, 40.0])
    one_hot = torch.nn.functional.one_hot(upper, 2).double()

    def margin(of_bias: float) -> float:
        def value(v: Tensor) -> Tensor:
            norm = v[:2].square().sum() + of_bias * v[2].square()
            return 1e-4 * norm + losses.cross_entropy(log_p(far, v), one_hot)

        _, v = descend(value, torch.tensor([0.0, 5.0, -200.0], dtype=torch.float64))
        return float(((2.0 * upper - 1) * (far @ v[:2] + v[2])).min() / v[:2].norm())

    assert margin(0.0) > 0.85 * largest_margin(points, upper) > 1.2 * margin(1.0)


def test_the_norm_is_of_the_weights_alone() -> None:
    weights = torch.arange(12.0).view(2, 2, 3)
    assert losses.margin_norm(weights).tolist() == [0 + 1 + 4 + 9 + 16 + 25, 36 + 49 + 64 + 81 + 100 + 121]
