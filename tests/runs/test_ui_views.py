"""What the MLflow UI is told to show: columns and their order, kept in the experiments as MLflow keeps shared views."""

import json

from runs.record.ui_views import KIND, SHARED, VIEW, first_page, set_views

from tests.runs.test_tracking import start


def test_the_page_of_the_newest_result_by_its_columns(tracker):
    start(tracker, experiment="evaluate/tiny").finish()
    start(tracker, experiment="cluster/tiny").finish()
    start(tracker, experiment="train/tiny").finish()
    set_views(tracker)
    made = {kind: tracker.client.get_experiment_by_name(f"{kind}/tiny") for kind in ("evaluate", "cluster", "train")}
    for experiment, by in zip(made.values(), ("accuracy", "acc_hungarian", "best_validation_accuracy"), strict=True):
        view = json.loads(experiment.tags[SHARED + VIEW])
        assert view["orderByKey"] == f"metrics.`{by}`"
        assert view["orderByAsc"] is False
        assert view["orderByKey"] in view["selectedColumns"]
        assert experiment.tags[KIND] == "custom_model_development"
    page = first_page(tracker, "http://127.0.0.1:5000")
    assert page in {
        f"http://127.0.0.1:5000/#/experiments/{made[kind].experiment_id}/runs?viewStateShareKey={VIEW}"
        for kind in ("evaluate", "cluster")
    }


def test_what_people_chose_stays(tracker):
    number = tracker.experiment("evaluate/tiny")
    tracker.client.set_experiment_tag(number, f"{SHARED}mine", "{}")
    set_views(tracker)
    assert tracker.client.get_experiment(number).tags[f"{SHARED}mine"] == "{}"


def test_without_runs_it_is_the_ui_itself(tracker):
    set_views(tracker)
    assert first_page(tracker, "http://127.0.0.1:5000") == "http://127.0.0.1:5000"
