"""Checks for files of saved classifiers: which files may be overwritten, and whether a header is complete."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from clustering.files.tensors import read_header
from clustering.foundation.errors import InputError

FORMAT = "transduce classifier 1"
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


def described(path: Path, header: Mapping[str, str]) -> Description:
    """The validated header of a file.

    Raises:
        InputError: an entry is missing or has a wrong type.
    """
    try:
        return Description.model_validate_json(header.get("classifier", ""))
    except ValidationError as error:
        raise InputError(f"{path}: not a complete classifier (its header is damaged); {REMEDY}") from error
