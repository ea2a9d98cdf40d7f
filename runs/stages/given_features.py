"""Given features, which replace images and network: banks of this project, or files of other programs."""

import dataclasses
import functools
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from clustering.foundation.errors import InputError

if TYPE_CHECKING:
    from fsl.benchmarks.benchmark import Split
    from fsl.episodes import Strategy
    from fsl.features.bank import FeatureBank

State = tuple[int, int]  # modification time (ns) and size (bytes) of a file


def given_bank(files: Sequence[str], split: str, prompt: int | None = None) -> "FeatureBank":
    """Return the features of a split, from files with one split each.

    The split of a bank is in its header; that of another program's file is in its name (`val_features.plk`). A file
    without either has novel classes. CL2N subtracts the mean of the given base features; without base features, it
    subtracts the base mean that the file contains.

    Args:
        prompt: number of a prompt of the files' `text_by_prompt`, whose features are those of the class names; None:
            their `text`.

    Raises:
        InputError: no file of that split or two, an unreadable file, base features of another network, no such prompt.
        ClosedSplitError: see `fsl.benchmarks.closed_splits`.
    """
    from fsl.benchmarks.closed_splits import check_open

    check_open(split)
    given, by_split = f"features={','.join(files)}", dict[str, str]()
    says = "(transduce import features FILE split={} says whose they are)"
    for file in files:
        own = _split_of(file)
        if own in by_split:
            problem = f"{by_split[own]} and {file} both have {own} classes; give one file of each split"
            raise InputError(f"{given}: {problem} {says.format('SPLIT')}")
        by_split[own] = file
    if split not in by_split:
        problem = f"none of these files has features of {split} classes; add one, separated by a comma"
        raise InputError(f"{given}: {problem} {says.format(split)}")
    bank = _read(by_split[split], split, _state(by_split[split]), prompt)
    if "base" not in by_split:
        return bank
    base = _read(by_split["base"], "base", _state(by_split["base"]), None)
    if base.dimension != bank.dimension:
        raise InputError(
            f"{given}: {by_split['base']} has {base.dimension} features of a picture, {by_split[split]} has "
            f"{bank.dimension}; give files that one network made"
        )
    return dataclasses.replace(bank, base_mean=base.base_mean)


def given_fingerprint(files: Sequence[str], split: str, prompt: int | None = None) -> str:
    """Return the fingerprint of a split's features and base mean; it does not depend on file names and formats."""
    return _fingerprint(tuple(files), split, tuple(map(_state, files)), prompt)


@functools.lru_cache(maxsize=1024)  # a table of single prompts has one for each
def _fingerprint(files: tuple[str, ...], split: str, states: tuple[State, ...], prompt: int | None) -> str:
    return given_bank(files, split, prompt).fingerprint()


def check_transform(strategy: "Strategy", name: str, files: Sequence[str], split: str) -> None:
    """Check that the base mean is known if the strategy subtracts it.

    Raises:
        InputError: it is unknown; or as `given_bank`.
    """
    if strategy.transform == "CL2N" and given_bank(files, split).base_mean is None:
        raise InputError(
            f"strategy {name} subtracts the mean of the base features (transform=CL2N), and features={','.join(files)} "
            "does not say it; add a file of base features, separated by a comma, or give transform=L2N"
        )


def _split_of(file: str) -> str:
    """Return the split of a file without reading its features."""
    from fsl.benchmarks.benchmark import SPLITS
    from fsl.benchmarks.layouts import FILES

    _state(file)
    header = _header(file)
    if header is None:
        words = re.findall(r"[a-z]+", Path(file).stem.lower())
        return next((split for word in words for split in SPLITS if word in FILES[split]), "novel")
    try:
        provenance = json.loads(header.get("provenance", "{}"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"features={file}: {error}") from error
    said = provenance.get("split") if isinstance(provenance, dict) else None
    return said if said in SPLITS else "novel"


def _header(file: str) -> dict[str, str] | None:
    """Return the header of a bank; None for another program's file, which names no format of this project."""
    from clustering.files.tensors import read_header

    path = Path(file).expanduser()
    header = read_header(path, "make it again") if path.suffix == ".safetensors" else {}
    return header if header.get("format", "").startswith("transduce") else None


def _state(file: str) -> State:
    try:
        state = os.stat(Path(file).expanduser())
    except OSError as error:
        raise InputError(
            f"features={file}: cannot be read ({error.strerror}); give a file of features, or its folder by "
            "features_root=FOLDER"
        ) from error
    return state.st_mtime_ns, state.st_size


@functools.lru_cache(maxsize=4)
def _read(file: str, split: str, state: State, prompt: int | None) -> "FeatureBank":
    """Read a file, once for all strategies and tasks as long as it does not change; base features get their mean."""
    import torch

    from fsl.features.bank import FeatureBank
    from fsl.features.foreign import import_features

    path = Path(file).expanduser()
    if _header(file) is None:
        bank = import_features(path, cast("Split", split), prompt=prompt)
    elif prompt is not None:
        raise InputError(f"features={file}: a bank has one text; omit prompt, or give the file it was made from")
    else:
        bank = FeatureBank.load(path, "make it again with `transduce import features`")
    if split != "base":
        return bank
    return dataclasses.replace(bank, base_mean=bank.features.mean(dim=0, dtype=torch.float64).float())
