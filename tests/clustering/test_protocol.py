"""Which trials are made, whose labels choose, and what is said of the result."""

from hypothesis import given, settings
from hypothesis import strategies as st

from clustering.evaluation.protocol import Selection, chooses, schedule

SETTINGS = st.lists(st.sampled_from([{}, {"a": 1}, {"a": 2}, {"a": 3}]), min_size=1, max_size=4).map(tuple)


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(4, 40), SETTINGS, st.booleans())
def test_every_trial_once_and_all_that_were_asked_for(starts, trials, settings, seeded):
    found = schedule(starts, Selection(trials, 0.1, settings), seeded=seeded)
    places = [(trial.setting, trial.start) for trial in found]
    assert len(set(places)) == len(places)
    assert places == sorted(places), "those of one setting stand together"
    assert sum(trial.given for trial in found) == (starts if seeded else 1)
    assert {trial.setting for trial in found if trial.given} == {0}
    tried = [trial for trial in found if trial.tried]
    if seeded:
        assert sorted(trial.start for trial in tried) == list(range(trials)), "each trial has a start of its own"
    wanted = {i + 1 if setting else 0 for i, setting in enumerate(settings)}
    assert {trial.setting for trial in tried} == wanted, "no setting is left out"


@settings(max_examples=30)
@given(st.integers(2, 300), st.floats(0, 1), st.integers(0, 5))
def test_some_points_choose_and_some_are_left(points, share, seed):
    found = chooses(points, share, seed)
    assert found.shape == (points,)
    assert 1 <= found.sum() <= points - 1
    assert abs(found.sum() - share * points) <= 1
    assert (found == chooses(points, share, seed)).all()
