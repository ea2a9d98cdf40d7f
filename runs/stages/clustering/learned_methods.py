"""Files of fitted methods that learn features: written by a run, and read to apply the method to other points.

from runs.stages.clustering.learned_methods import learned_method

model = learned_method("results/cache/.../network.safetensors")  # the path is printed by `transduce cluster`
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
    """Write the weights and parameters of a fitted method to a file; random_state and device are left out."""
    settings = {name: value for name, value in model.get_params().items() if name not in ("random_state", "device")}
    write_tensors(path, model.weights(), {"format": FORMAT, "method": method, "settings": json.dumps(settings)})


def learned_method(path: str | Path, method: str | None = None) -> Any:
    """Return a fitted method on the CPU; it predicts clusters of new rows and transforms them.

    Args:
        path: the file.
        method: name of the method, "module:Class", if it is not part of this project. The name in the file is not
            trusted, since a file must not determine which module is imported.

    Raises:
        InputError: a missing file, an unknown format, or another method.
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
