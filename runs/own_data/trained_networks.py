"""Networks in the results folder that `classify` and `label` can use."""

import contextlib
import json
from pathlib import Path
from typing import NamedTuple

from clustering.files.tensors import read_header
from runs.cache import COMPLETE, Store

FILE = "best.safetensors"


class TrainedNetwork(NamedTuple):
    """The file of a checkpoint, its network, and the benchmark it was trained on."""

    path: Path
    backbone: str
    benchmark: str


def trained_networks(store: Store) -> list[TrainedNetwork]:
    """The trained networks, newest first. Only headers are read; damaged files are left out."""
    networks = []
    finished = [path for path in store.cache("checkpoint").glob(f"*/{COMPLETE}") if (path.parent / FILE).is_file()]
    for path in sorted(finished, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            about = read_header(path.parent / FILE, "")
            config = json.loads(about["about"]) if "about" in about else about
            networks.append(TrainedNetwork(path.parent / FILE, about["backbone"], str(config.get("benchmark", "?"))))
    return networks
