"""Learning-rate schedules."""

import math

import pytest
from fsl.training.schedules import START, factor
from hypothesis import given
from hypothesis import strategies as st


@given(
    schedule=st.sampled_from(["step", "cosine", "one_cycle"]),
    per_epoch=st.integers(1, 50),
    epochs=st.integers(1, 20),
    warmup=st.floats(0, 0.9),
)
def test_within_bounds_rising_then_falling(schedule: str, per_epoch: int, epochs: int, warmup: float) -> None:
    rising = warmup * epochs
    rates = [
        factor(
            schedule,
            step,
            steps_per_epoch=per_epoch,
            epochs=epochs,
            warmup=rising,
            milestones=(1, 3),
            gamma=0.5,
        )
        for step in range(per_epoch * epochs)
    ]
    assert all(0 <= rate <= 1 for rate in rates)
    top = math.ceil(rising * per_epoch)
    up, down = rates[:top], rates[top:]
    assert up == sorted(up)
    assert down == sorted(down, reverse=True)


def test_step_falls_at_its_milestones() -> None:
    rates = [factor("step", s, steps_per_epoch=2, epochs=6, milestones=(2, 4), gamma=0.1) for s in range(12)]
    assert rates == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01])


def test_cosine_and_one_cycle_by_hand() -> None:
    assert factor("cosine", 0, steps_per_epoch=10, epochs=2) == 1
    assert factor("cosine", 10, steps_per_epoch=10, epochs=2) == pytest.approx(0.5)
    assert factor("cosine", 20, steps_per_epoch=10, epochs=2) == pytest.approx(0, abs=1e-12)
    assert factor("one_cycle", 0, steps_per_epoch=10, epochs=4, warmup=1) == START
    assert factor("one_cycle", 5, steps_per_epoch=10, epochs=4, warmup=1) == pytest.approx((1 + START) / 2)
    assert factor("one_cycle", 10, steps_per_epoch=10, epochs=4, warmup=1) == 1
    assert factor("one_cycle", 25, steps_per_epoch=10, epochs=4, warmup=1) == pytest.approx(0.5)
    assert factor("cosine", 0, steps_per_epoch=4, epochs=4, warmup=1) == pytest.approx(1 / 5)
