"""Files of saved classifiers, which code in a file cannot enter."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from clustering.files.tensors import read_header, read_tensors, write_tensors
from clustering.foundation.errors import InputError
from fsl.episodes import Episodes

FORMAT = "transduce classifier 1"
TENSORS = ("support", "support_labels")
OPTIONAL = ("base_mean", "prototypes", "text")
"""Arrays of a classifier; those that depend on whether there are class names may be absent."""
REMEDY = "give a file written by FewShotClassifier.save or `transduce classify --save`"


class Description(BaseModel):
    """The JSON header of a saved classifier; values of other types are refused."""

    model_config = ConfigDict(strict=True)

    classes: Annotated[list[str] | list[int] | list[float] | list[bool], Field(min_length=2)]
    strategy: str
    fields: dict[str, Any]
    refined_by: Annotated[int, Field(ge=0)]
    logit_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 100.0
    backbone: str | None
    weights: str | None
    encoder: str | None
    prompts: list[str] | None = None

    @field_validator("classes")
    @classmethod
    def _are_sorted(cls, classes: list[Any]) -> list[Any]:
        if not np.array_equal(np.unique(classes), classes):
            raise ValueError("classes must be sorted, without repetition")
        return classes


def check_replaceable(path: Path) -> None:
    """Check that only a classifier would be overwritten.

    Raises:
        InputError: another file exists at the path.
    """
    if path.exists() and path.stat().st_size:  # an empty file has nothing to lose
        remedy = "only classifiers are overwritten; give another path"
        if "classifier" not in read_header(path, remedy, FORMAT):  # networks once had this format too
            raise InputError(f"{path}: exists, and is not a classifier; {remedy}")


def write(path: Path, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a classifier atomically: its `Description`, as JSON, and its arrays. Only a classifier is overwritten.

    Raises:
        InputError: class names are neither strings nor numbers, the file cannot be created, or another file exists at
            the path.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        problem = "is a folder" if path.is_dir() else "its folder does not exist"
        raise InputError(f"{path}: {problem}; give a file in an existing folder")
    check_replaceable(path)
    if not all(isinstance(name, (str, int, float)) for name in description["classes"]):
        raise InputError("class names must be strings or numbers to be saved")
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    write_tensors(path, tensors, {"format": FORMAT, "classifier": json.dumps(description)})


def read(path: Path) -> tuple[Description, dict[str, NDArray[Any]]]:
    """The description and the arrays of a classifier, checked.

    Raises:
        InputError: the file is missing, damaged or of another program, an entry of its header is missing or has a wrong
            type, or its arrays do not fit each other.
    """
    tensors, header = read_tensors(path, FORMAT, REMEDY)
    try:
        about = Description.model_validate_json(header.get("classifier", ""))
    except ValidationError as error:
        raise InputError(f"{path}: not a complete classifier (its header is damaged); {REMEDY}") from error
    try:
        support, labels, text = tensors["support"], tensors["support_labels"], tensors.get("text")
        shape, others = (len(about.classes), support.shape[1]), [tensors[name] for name in OPTIONAL if name in tensors]
        query, mean = support.new_zeros(1, 1, shape[1]), tensors.get("base_mean")
        names = None if text is None else text[None]
        Episodes(support[None], labels[None], query, len(about.classes), base_mean=mean, text=names)
        if text is None and len(others) < 2:
            raise InputError("prototypes or base_mean are missing")
        if tuple(tensors.get("prototypes", torch.empty(shape)).shape) != shape:
            raise InputError(f"prototypes must be of shape {shape}")
        if not all(tensor.dtype == support.dtype and bool(tensor.isfinite().all()) for tensor in others):
            raise InputError("its tensors are of several types, or not finite")
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{path}: not a complete classifier ({error}); {REMEDY}") from error
    return about, {name: tensor.numpy() for name, tensor in tensors.items()}
