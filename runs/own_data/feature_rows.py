"""Features of a user's own, given as files instead of pictures and class names."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from clustering.files.tensors import fingerprint_of
from clustering.foundation.errors import InputError
from fsl.features.arrays import read_features
from runs.own_data.classify_config import ClassifyConfig
from runs.own_data.picture_features import Pictures


def rows_of_features(config: ClassifyConfig, dimension: int) -> Pictures:
    """Return the rows of the file `query_features` as pictures, whose paths are the row numbers, from 0.

    Args:
        config: the config.
        dimension: number of features of the classifier.

    Raises:
        InputError: the file has no features, or another number of them; the message names the key and the file.
    """
    assert config.query_features is not None
    features = torch.from_numpy(_read("query_features", config.query_features, "column", config.column))
    if features.shape[1] != dimension:
        source = "the saved classifier" if config.classifier is not None else "text_features"
        raise InputError(
            f"query_features: {config.query_features} has {features.shape[1]} features per row, {source} has "
            f"{dimension}; give features of the same network"
        )
    digest = fingerprint_of({"features": features})
    return Pictures(tuple(map(str, range(len(features)))), (digest,), np.arange(len(features)), features)


def text_features(config: ClassifyConfig) -> NDArray[np.floating] | None:
    """Return the rows of the file `text_features`; None without one.

    Raises:
        InputError: the file has no features; the message names the key and the file.
    """
    if config.text_features is None:
        return None
    return _read("text_features", config.text_features, "text_column", config.text_column)


def _read(key: str, file: str, option: str, column: str | None) -> NDArray[np.floating]:
    try:
        found = read_features(Path(file).expanduser(), column, option=option)
    except InputError as error:
        raise InputError(f"{key}: {error}") from error
    return found if found.dtype == np.float64 else found.astype(np.float32)
