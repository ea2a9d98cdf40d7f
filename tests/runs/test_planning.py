"""The plan of a run: it makes nothing, knows what is there, and needs no MLflow."""

import json

from runs.cache import Store
from runs.plan import plan


def test_the_plan_makes_nothing_and_knows_what_is_there(tmp_path, configs, trained, evaluate, tracker):
    new = Store(tmp_path / "new")
    made = plan(configs("shot=1,5"), new)
    assert not new.root.exists()
    assert made.runs == 3
    assert [step.stage for step in made.steps] == ["checkpoint", *["features"] * 2, *["evaluation"] * 2]
    assert {step.state for step in made.steps} == {"to do"}
    assert "5 stages, 0 cached; 3 new runs" in str(made)
    json.dumps(made.as_dict())
    evaluate(configs())
    made = plan(configs("shot=1,5"), trained)
    assert made.runs == 1
    assert [(step.stage, step.state) for step in made.steps] == [
        ("checkpoint", "cached"),
        ("features", "cached"),
        ("features", "cached"),
        ("evaluation", "cached"),
        ("evaluation", "to do"),
    ]
