"""What a method that learns features came to, in a file: kept by its run, and read to be applied to other points.

from runs.stages.clustering.learned_methods import learned_method

model = learned_method("results/checkpoints/.../network.safetensors")  # `transduce cluster` says where it is
model.predict(X), model.transform(X)
"""

import json
from pathlib import Path
from typing import Any

from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.errors import InputError
from clustering.methods import METHODS

FORMAT = "transduce representation 2"


def keep_method(path: Path, model: Any, method: str) -> None:
    """Write the weights of a fitted method of that name, and its parameters but those of the fit's surroundings."""
    settings = {name: value for name, value in model.get_params().items() if name not in ("random_state", "device")}
    write_tensors(path, model.weights(), {"format": FORMAT, "method": method, "settings": json.dumps(settings)})


def learned_method(path: str | Path, method: str | None = None) -> Any:
    """The method whose weights a run kept, on the CPU: it predicts clusters of new rows and transforms them.

    Args:
        path: the file.
        method: name of the method, "module:Class", where it is one of your own. The file cannot name it: a file must
            not choose which module is imported.

    Raises:
        InputError: no such file, none that this version reads, or one of another method.
    """
    remedy = "give the network.safetensors of a run that learned features in steps, or run it again"
    weights, header = read_tensors(Path(path), FORMAT, remedy)
    try:
        if header["method"] not in (method, *METHODS.names()):
            raise InputError(f"its method is {header['method']!r}, which is read with method={header['method']!r} only")
        model = METHODS.load(header["method"])(**json.loads(header["settings"]))
        return model.with_weights(weights)
    except (KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise InputError(f"{path}: {error}; {remedy}") from error
