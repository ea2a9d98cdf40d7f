"""Networks in the results folder that `classify` can use."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from clustering.files.tensors import read_header
from runs.cache import COMPLETE, Store

FILE = "best.safetensors"
TRAIN = "to train a network on your own pictures: transduce train benchmark=folder root=FOLDER"


class TrainedNetwork(NamedTuple):
    """A checkpoint in the results folder.

    Attributes:
        path: its file.
        backbone: its network.
        benchmark: the benchmark it was trained on.
    """

    path: Path
    backbone: str
    benchmark: str


def trained_networks(store: Store) -> list[TrainedNetwork]:
    """Return the trained networks, newest first. Only headers are read."""
    finished = [path for path in store.cache("checkpoint").glob(f"*/{COMPLETE}") if (path.parent / FILE).is_file()]
    newest = sorted(finished, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return [network for path in newest for network in _described(path.parent / FILE)]


def networks_here(store: Store) -> str:
    """Return the available networks, for error messages."""
    networks = trained_networks(store)
    if not networks:
        return TRAIN
    first = networks[0]
    others = store.cache("checkpoint")
    more = f" ({len(networks) - 1} more in {others})" if len(networks) > 1 else ""
    return f"trained here: --backbone {first.path}, {first.backbone} on {first.benchmark}{more}; {TRAIN}"


def _described(path: Path) -> Iterator[TrainedNetwork]:
    """Yield the description from a file's header; nothing if it is damaged."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        about = read_header(path, "")
        config = json.loads(about["about"]) if "about" in about else about
        yield TrainedNetwork(path, about["backbone"], str(config.get("benchmark", "?")))
