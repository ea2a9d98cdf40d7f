"""Checks for files of saved classifiers: which files may be overwritten, and whether a header is complete."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clustering.files.tensors import read_header
from clustering.foundation.errors import InputError

FORMAT = "transduce classifier 1"
REMEDY = "give a file written by FewShotClassifier.save or `transduce classify --save`"


ENTRIES: dict[str, tuple[type, ...]] = {
    "classes": (list,),
    "strategy": (str,),
    "fields": (dict,),
    "refined_by": (int,),
    "logit_scale": (int, float),
    **dict.fromkeys(("backbone", "weights", "encoder"), (str, type(None))),
    "prompts": (list, type(None)),
}
"""Types of the entries of a header."""


def check_replaceable(path: Path) -> None:
    """Check that only a classifier would be overwritten.

    Raises:
        InputError: another file exists at the path.
    """
    if path.exists() and path.stat().st_size:  # an empty file has nothing to lose
        remedy = "only classifiers are overwritten; give another path"
        if "classifier" not in read_header(path, remedy, FORMAT):  # networks once had this format too
            raise InputError(f"{path}: exists, and is not a classifier; {remedy}")


def described(path: Path, header: Mapping[str, str]) -> dict[str, Any]:
    """The validated JSON header of a file.

    Raises:
        InputError: an entry is missing or has a wrong type.
    """
    try:
        found: dict[str, Any] = {"logit_scale": 100.0, "prompts": None, **json.loads(header["classifier"])}
        classes = found["classes"]
        is_valid = (
            all(type(found[name]) in kinds for name, kinds in ENTRIES.items())
            and {type(name) for name in classes} in ({str}, {int}, {float}, {bool})
            and np.array_equal(np.unique(classes), classes)
            and len(classes) > 1
            and found["refined_by"] >= 0
            and 0 < found["logit_scale"] < math.inf
            and all(isinstance(prompt, str) for prompt in found["prompts"] or ())
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        is_valid = False
    if not is_valid:
        raise InputError(f"{path}: not a complete classifier (its header is damaged); {REMEDY}")
    return found
