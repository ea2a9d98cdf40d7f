"""Intermediate results of a long evaluation, stored on disk, from which an interrupted evaluation resumes."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.errors import InputError

FORMAT = "transduce unfinished evaluation 1"
EVERY = 30.0  # seconds between writes


class BatchResult(NamedTuple):
    """The stored part of a strategy's predictions for b tasks, on the CPU.

    Attributes:
        labels: (b, Q) predicted classes.
        iterations: (b,) steps.
        trace: (steps, b) objective, or None.
        seconds: total time of the tasks.
        audits: (b,) values of each audit.
    """

    labels: Tensor
    iterations: Tensor
    trace: Tensor | None
    seconds: float
    audits: Mapping[str, Tensor] = MappingProxyType({})


class Unfinished:
    """The file of one evaluation. Objectives are stored for the first batch only, as in `Evaluation`.

    Args:
        path: the file; its folder must exist.
        about: identity of the tasks and strategies; a file with another identity, or a damaged file, is ignored.
    """

    def __init__(self, path: Path, about: str) -> None:
        self.path, self.about = path, about
        self.done = 0
        self._kept: dict[str, list[Tensor]] = {}
        self._written = time.monotonic()
        try:
            tensors, header = read_tensors(path, FORMAT, "it is made anew")
        except InputError:
            return
        if header.get("about") == about:
            self._kept = {key: [tensor.clone()] for key, tensor in tensors.items()}
            self.done = int(header["done"])

    def take(self, name: str, start: int, count: int) -> BatchResult | None:
        """The stored predictions of a strategy for these tasks; None unless all are stored."""
        if start + count > self.done or f"{name}|labels" not in self._kept:
            return None
        kept = {key.removeprefix(f"{name}|"): self._joined(key) for key in self._kept if key.startswith(f"{name}|")}
        part = slice(start, start + count)
        audits = {key.partition(":")[2]: kept[key][part] for key in kept if key.startswith("audit:")}
        seconds = float(kept["seconds"][part].sum())
        return BatchResult(kept["labels"][part], kept["iterations"][part], kept.get("trace"), seconds, audits)

    def cut(self, done: int) -> None:
        """Discard all tasks after the first `done`."""
        if done < self.done:
            rows = [key for key in self._kept if not key.endswith("|trace")]
            self._kept |= {key: [self._joined(key)[:done]] for key in rows}
            self._kept = self._kept if done else {}
            self.done = done

    def add(self, count: int, results: Mapping[str, BatchResult]) -> None:
        """Store the predictions for the next `count` tasks; they are written to disk periodically."""
        for name, one in results.items():
            rows = {"labels": one.labels, "iterations": one.iterations}
            rows["seconds"] = torch.full((count,), one.seconds / count, dtype=torch.float64)
            rows |= {f"audit:{audit}": values for audit, values in one.audits.items()}
            if self.done == 0 and one.trace is not None:
                rows["trace"] = one.trace
            for key, tensor in rows.items():
                self._kept.setdefault(f"{name}|{key}", []).append(tensor)
        self.done += count
        if time.monotonic() - self._written > EVERY:
            self.write()

    def write(self) -> None:
        """Write all stored predictions to disk."""
        if self.done:
            tensors = {key: self._joined(key) for key in self._kept}
            write_tensors(self.path, tensors, {"format": FORMAT, "about": self.about, "done": str(self.done)})
        self._written = time.monotonic()

    def _joined(self, key: str) -> Tensor:
        if len(self._kept[key]) > 1:
            self._kept[key] = [torch.cat(self._kept[key])]
        return self._kept[key][0]
