"""What strategies predicted in an evaluation that takes long, kept on disk while it is under way: an interrupted one
goes on after the last task that was kept."""

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
EVERY = 30.0  # seconds between writings


class Found(NamedTuple):
    """What is kept of a strategy's predictions for b tasks, on the CPU.

    Attributes:
        labels: (b, Q) predicted classes.
        iterations: (b,) steps.
        trace: (steps, b) objective, or None.
        seconds: that the tasks took together.
        audits: (b,) by name.
    """

    labels: Tensor
    iterations: Tensor
    trace: Tensor | None
    seconds: float
    audits: Mapping[str, Tensor] = MappingProxyType({})


class Unfinished:
    """The file of one evaluation. Objectives are kept of the first batch, as evaluations show no others.

    Args:
        path: of the file; its folder must exist.
        about: what the tasks and predictions depend on; a file about something else, or a damaged one, is passed over.
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

    def take(self, name: str, start: int, count: int) -> Found | None:
        """What the strategy of that name found for these tasks; None where that is not known of all of them."""
        if start + count > self.done or f"{name}|labels" not in self._kept:
            return None
        kept = {key.removeprefix(f"{name}|"): self._joined(key) for key in self._kept if key.startswith(f"{name}|")}
        part = slice(start, start + count)
        audits = {key.partition(":")[2]: kept[key][part] for key in kept if key.startswith("audit:")}
        seconds = float(kept["seconds"][part].sum())
        return Found(kept["labels"][part], kept["iterations"][part], kept.get("trace"), seconds, audits)

    def cut(self, done: int) -> None:
        """Forget all tasks but the first `done`."""
        if done < self.done:
            rows = [key for key in self._kept if not key.endswith("|trace")]
            self._kept |= {key: [self._joined(key)[:done]] for key in rows}
            self._kept = self._kept if done else {}
            self.done = done

    def add(self, count: int, found: Mapping[str, Found]) -> None:
        """Keep what strategies found for the next tasks, `count` of them; it is written now and then."""
        for name, one in found.items():
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
        """What was added is on disk after this."""
        if self.done:
            tensors = {key: self._joined(key) for key in self._kept}
            write_tensors(self.path, tensors, {"format": FORMAT, "about": self.about, "done": str(self.done)})
        self._written = time.monotonic()

    def _joined(self, key: str) -> Tensor:
        if len(self._kept[key]) > 1:
            self._kept[key] = [torch.cat(self._kept[key])]
        return self._kept[key][0]
