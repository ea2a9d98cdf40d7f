"""One check of a strategy of a user, by evaluations and by the classifier: what is missing, and where an example is."""

from dataclasses import dataclass

import pytest

from clustering.foundation.errors import InputError
from fsl.episodes import check_strategy
from fsl.few_shot_classifier import FewShotClassifier
from fsl.strategies.simpleshot import SimpleShot


@dataclass(frozen=True)
class SelfTraining:
    """Lacks its class variables."""

    transform: str = "CL2N"

    def predict(self, episodes):
        return SimpleShot().predict(episodes)


@pytest.mark.parametrize(
    "refuse",
    [lambda one: check_strategy("mine", one), lambda one: FewShotClassifier(one).fit([[0.0, 1], [1, 0]], [0, 1])],
)
def test_both_name_all_that_is_missing(refuse):
    with pytest.raises(
        InputError, match=r"transductive: ClassVar.*assumes_balance: ClassVar.*tests/templates/strategy.py"
    ):
        refuse(SelfTraining())
    with pytest.raises(InputError, match=r"predict.*transform.*transductive"):
        refuse(object())
    with pytest.raises(InputError, match=r"SimpleShot\(\), not the class"):
        refuse(SimpleShot)


def test_a_whole_one_is_accepted():
    check_strategy("simpleshot", SimpleShot())
