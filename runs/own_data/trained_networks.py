"""Networks that were trained or imported here, which `classify` can look at pictures with."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from clustering.files.tensor_headers import read_header
from runs.storage.store import COMPLETE, Store

FILE = "best.safetensors"
TRAIN = "transduce train benchmark=folder root=FOLDER trains one on your own pictures"


class TrainedNetwork(NamedTuple):
    """A checkpoint of the results folder.

    Attributes:
        path: of its file.
        backbone, benchmark: what it is, and what it was trained on.
    """

    path: Path
    backbone: str
    benchmark: str


def trained_networks(store: Store) -> list[TrainedNetwork]:
    """The newest first. Nothing is written, and no weights are read."""
    finished = [path for path in store.cache("checkpoints").glob(f"*/{COMPLETE}") if (path.parent / FILE).is_file()]
    newest = sorted(finished, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return [network for path in newest for network in _described(path.parent / FILE)]


def networks_here(store: Store) -> str:
    """What may be given as a network that needs no download, for messages."""
    found = trained_networks(store)
    if not found:
        return TRAIN
    first = found[0]
    others = store.cache("checkpoints")
    more = f" ({len(found) - 1} more in {others})" if len(found) > 1 else ""
    return f"trained here: --backbone {first.path}, {first.backbone} on {first.benchmark}{more}; {TRAIN}"


def _described(path: Path) -> Iterator[TrainedNetwork]:
    """What the header says; nothing of a file whose header is damaged."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        about = read_header(path, "")
        config = json.loads(about["about"]) if "about" in about else about
        yield TrainedNetwork(path, about["backbone"], str(config.get("benchmark", "?")))
