"""Networks in MLflow: `mlflow.pytorch.load_model("runs:/<id>/model")` loads one."""

import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


def log_network(
    client: Any, run_id: str, network: "nn.Module", name: str, packages: Sequence[str], code: Sequence[str] = ()
) -> None:
    """Log a network as the run's model `name`, as `mlflow.pytorch.log_model` does, without an active run.

    Args:
        client: MLflow's client.
        network: the network on the CPU.
        packages: requirements for loading it, in the form of pip. Others are not searched for, which takes long.
        code: Python files that define the network, if no package does.
    """
    with warnings.catch_warnings():  # about types of MLflow itself
        warnings.simplefilter("ignore")
        import mlflow.pyfunc
        import mlflow.pytorch
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    logging.getLogger("mlflow.pytorch").setLevel(logging.ERROR)  # hides a warning about pickles
    run = client.get_run(run_id)
    if run.outputs is not None and run.outputs.model_outputs:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        form, files = mlflow.pytorch.SERIALIZATION_FORMAT_PICKLE, list(code) or None
        mlflow.pytorch.save_model(
            network, path, pip_requirements=list(packages), code_paths=files, serialization_format=form
        )
        model = client.create_logged_model(
            run.info.experiment_id, name=name, source_run_id=run_id, model_type="backbone"
        )
        client.log_model_artifacts(model.model_id, str(path))
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    client.log_outputs(run_id, models=[LoggedModelOutput(model.model_id, 0)])
