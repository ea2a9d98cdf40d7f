"""The artefacts of runs, wherever the runs are recorded."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from runs.storage.locks import Say

T = TypeVar("T")


class RunFolders(ABC):
    """The artefacts of the runs of one record; `say` prints messages for the user."""

    say: Say

    @abstractmethod
    def download(self, run_id: str, name: str, folder: Path, artifacts: str = "") -> Path | None:
        """Return the path of one artefact of a run, possibly copied to `folder`, or None if it is missing."""

    def read(self, run_id: str, name: str, load: Callable[[Path], T], artifacts: str = "") -> T:
        """Return one artefact of a run, read by `load`.

        Args:
            artifacts: URI of the run's files, if it is known; files on this machine are then read directly.

        Raises:
            ValueError: the artefact is missing or damaged.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = self.download(run_id, name, Path(folder), artifacts)
            if path is None:
                raise ValueError("missing")
            try:
                return load(path)
            except Exception as error:  # zipfile and numpy each raise their own errors
                raise ValueError(f"damaged: {error}") from error
