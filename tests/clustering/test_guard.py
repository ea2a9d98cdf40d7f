"""The guard of a descent: which steps it accepts, kappa, and when problems stop."""

import torch
from torch import Tensor

from clustering.optimiser.guard import Guard, Status


def of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def guard(kappa: Tensor | None, problems: int, **options: bool) -> Guard:
    return Guard(torch.ones(problems, dtype=torch.bool), 1e-6, 1e-5, kappa, **options)


def test_kappa_doubles_after_a_rejected_step_and_halves_where_all_that_was_predicted_came() -> None:
    judged = guard(of(4, 4, 4, 2.0**-6, 0, 0), 6)
    after = of(10, 9.5, 9, 9, 10, 9)  # of a decrease by 1 that was predicted
    rejected = judged.judge(of(*[10] * 6), after, of(*[-1] * 6), of(*[1e-9] * 6))
    assert rejected is not None
    assert rejected.tolist() == [True, False, False, False, True, False]
    assert judged.kappa is not None
    assert judged.kappa.tolist() == [8, 4, 2, 2.0**-6, 1, 0]


def test_without_a_rejected_step_there_is_no_proximal_weight() -> None:
    judged = guard(None, 1)
    assert judged.judge(of(10), of(9), of(-1), of(1e-9)) is None
    assert judged.kappa is None
    assert judged.judge(of(9), of(9), of(-1), of(1e-9)) is not None
    assert judged.kappa == 1


def test_problems_stop_where_they_converge_or_where_rounding_hides_the_decrease() -> None:
    judged, R = guard(of(1, 1, 2.0**40), 3), of(10, 10, 10)
    for _ in range(3):
        judged.judge(R, of(10 - 1e-8, 11, 11), of(-1e-8, -1e-12, -1), of(*[1e-9] * 3))
    assert judged.status.tolist() == [Status.CONVERGED, Status.ROUNDING, Status.STEP_FAILED]
    judged.spare(of(1, 1, 1), R, of(*[1e-9] * 3))
    assert judged.status.tolist() == [0, Status.ROUNDING, Status.STEP_FAILED]
    assert judged.ended


def test_an_unguarded_step_is_never_rejected() -> None:
    judged = guard(None, 1, guarded=False)
    assert judged.judge(of(10), of(20), of(-1), of(1e-9)) is None
