"""What a user of MLflow, OmegaConf and Lightning expects of a run, by their own interfaces alone."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from runs.cli import main


@pytest.fixture(scope="module")
def sweep(tmp_path_factory, tiny_arguments, empty_record):
    """A results folder with a sweep of two strategies at two shots, and MLflow's address of it."""
    root = tmp_path_factory.mktemp("sweep") / "results"
    root.mkdir()
    shutil.copy(empty_record, root / "mlflow.db")
    words = ["evaluate", *tiny_arguments, "strategy=simpleshot,laplacianshot", "shot=1,3", f"results={root}"]
    assert main(words) == 0
    return root, f"sqlite:///{root / 'mlflow.db'}"


@pytest.fixture
def mlflow(sweep, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")  # MLflow sets it, and it would be the record of later tests
    mlflow.set_tracking_uri(sweep[1])
    yield mlflow
    mlflow.set_tracking_uri(None)


def runs_of(mlflow, condition: str = ""):
    names = [experiment.name for experiment in mlflow.search_experiments() if experiment.name != "Default"]
    return mlflow.search_runs(experiment_names=names, filter_string=condition)


def test_a_sweep_is_one_frame(mlflow) -> None:
    frame = runs_of(mlflow, "tags.stage = 'evaluation'")
    assert len(frame) == 4
    assert set(frame["params.strategy"]) == {"simpleshot", "laplacianshot"}
    assert set(frame["params.sampler.shot"].dropna()) >= {"3"}
    assert frame["metrics.accuracy"].between(0, 1).all()
    assert frame["tags.key"].nunique() == 4
    assert frame["tags.mlflow.user"].notna().all()
    assert frame["tags.mlflow.source.name"].notna().all()
    assert (frame["status"] == "FINISHED").all()


def test_the_runs_of_a_command_have_one_parent(mlflow) -> None:
    frame = runs_of(mlflow, "tags.stage = 'evaluation'")
    parents = frame["tags.mlflow.parentRunId"].unique()
    assert len(parents) == 1
    assert mlflow.get_run(parents[0]).info.status == "FINISHED"


def test_data_sets_are_inputs_with_their_fingerprint(mlflow) -> None:
    run = mlflow.get_run(runs_of(mlflow, "tags.stage = 'evaluation'")["run_id"][0])
    assert [one.dataset.name for one in run.inputs.dataset_inputs]
    assert all(one.dataset.digest for one in run.inputs.dataset_inputs)
    assert {"machine", "key", "mlflow.source.git.commit"} <= run.data.tags.keys()
    assert {file.path for file in mlflow.artifacts.list_artifacts(run_id=run.info.run_id)} >= {"config.yaml"}


def test_a_training_has_curves_and_its_network_loads(mlflow, sweep) -> None:
    import torch

    frame = runs_of(mlflow, "tags.stage = 'checkpoint'")
    assert len(frame) == 1
    run_id = frame["run_id"][0]
    history = mlflow.MlflowClient().get_metric_history(run_id, "train/loss_epoch")
    assert len({point.step for point in history}) > 1
    assert mlflow.MlflowClient().get_metric_history(run_id, "val/simpleshot")
    network = mlflow.pytorch.load_model(f"runs:/{run_id}/model").eval()
    with torch.inference_mode():
        assert network(torch.zeros(2, 1, 16, 16)).ndim == 2


def test_a_run_is_repeated_from_its_config(mlflow, sweep, tmp_path, capsys) -> None:
    from omegaconf import OmegaConf

    run = runs_of(mlflow, "tags.stage = 'evaluation'").iloc[0]
    path = mlflow.artifacts.download_artifacts(
        run_id=run["run_id"], artifact_path="config.yaml", dst_path=str(tmp_path)
    )
    config = OmegaConf.load(path)
    assert config.sampler.shot if OmegaConf.is_dict(config.get("sampler")) else config["sampler.shot"]
    capsys.readouterr()
    assert main(["evaluate", f"experiment={path}", f"results={sweep[0]}", "--json"]) == 0
    (again,) = json.loads(capsys.readouterr().out)
    assert again["reused"]
    assert again["key"] == run["tags.key"]


OWN = """
import pytorch_lightning as pl

class Count(pl.Callback):
    def __init__(self, path, factor=1):
        self.path, self.factor = path, factor

    def on_train_epoch_end(self, trainer, module):
        with open(self.path, "a") as file:
            file.write("x" * self.factor * trainer.train_dataloader.num_workers)
"""


def test_an_own_callback_and_a_trainer_setting_from_yaml(tmp_path, tiny_arguments, monkeypatch, capsys) -> None:
    (tmp_path / "own_callback.py").write_text(OWN)
    left = [word for word in tiny_arguments if not word.startswith(("tasks=", "query=", "epochs="))]
    lines = [f"{key}: {value}" for key, _, value in (word.partition("=") for word in left)]
    lines += ["trainer: {max_epochs: 2, gradient_clip_val: 0.5}", "callbacks:"]
    lines += [f"  count: {{_target_: '{tmp_path}/own_callback.py:Count', path: '{tmp_path}/epochs', factor: 2}}"]
    (tmp_path / "own.yaml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    assert main(["train", "experiment=own.yaml", "workers=1", f"results={tmp_path / 'results'}"]) == 0
    assert (tmp_path / "epochs").read_text() == "xxxx"


def test_results_that_the_record_lost_are_logged_again(tmp_path, tiny_arguments, trained_results) -> None:
    """In the cache and not in MLflow means: log it."""
    root = tmp_path / "r"
    shutil.copytree(trained_results / "cache", root / "cache")
    words = ["evaluate", *tiny_arguments, "strategy=simpleshot", f"results={root}", "--json"]
    code = "import sys; from runs.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    (again,) = json.loads(done.stdout)
    assert again["reused"]
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{root / 'mlflow.db'}")
    experiments = [one.experiment_id for one in client.search_experiments()]
    assert client.search_runs(experiments, f"tags.key = '{again['key']}' and attributes.status = 'FINISHED'")
