"""The results folder: finished results by key, checked when they are read, and locks between processes.

    results/
        id                      random id of this folder, a tag of its runs
        mlflow.db, artifacts/   the record of runs, unless MLFLOW_TRACKING_URI names another one (runs/track.py)
        cache/<kind>/<key>/     a finished result: config.yaml, metrics.json, data; checksums: complete.json
        cache/<kind>/<key>.partial/  files of an interrupted computation that can be resumed
        cache/images/           decoded benchmarks
        tables/, figures/       comparisons and pictures
        locks/                  one file per key

A result is written to a temporary folder, which is renamed when it is complete.
"""

import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clustering.files.regular import open_regular, read_text
from clustering.foundation.errors import InputError
from runs.storage.disk import is_full, write_text
from runs.storage.locks import Say, locked, silent, try_locked

ENVIRONMENT = "TRANSDUCE_RESULTS"
CONFIG, METRICS, COMPLETE = "config.yaml", "metrics.json", "complete.json"
RUNS, RUNS_NOTED = "runs.json", 50  # the runs that record a result, by record and parent run
OWN = ("clustering", "fairness", "fsl", "runs")  # packages whose classes state their revision
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)  # errors of reading a result
_checked: dict[str, tuple[int, int]] = {}  # size and modification time of the files whose checksum was right


def key(kind: str, config: Mapping[str, Any], inputs: Mapping[str, Any], revisions: Mapping[str, int | str]) -> str:
    """Return the key of a result: 16 hexadecimal digits of the SHA-256 of everything that can change it.

    Args:
        kind: "checkpoint", "features", "evaluation" or another kind of result.
        config: the result keys of its config.
        inputs: fingerprints and keys of its inputs.
        revisions: revision of each plug-in and stage that computes it.

    Raises:
        TypeError, ValueError: JSON cannot represent a value, such as NaN.
    """
    parts = {"kind": kind, "config": dict(config), "inputs": dict(inputs), "revisions": dict(revisions)}
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def revisions(**parts: object) -> dict[str, int | str]:
    """Return the revisions of the parts of a computation: numbers, or plug-in classes with a `revision` (default 1).

    A class of a user counts by the content of its file, so that an edited plug-in is run again.
    """
    return {name: part if isinstance(part, int) else _revision(part) for name, part in parts.items()}


def _revision(kind: object) -> int | str:
    revision, module = int(getattr(kind, "revision", 1)), str(getattr(kind, "__module__", ""))
    file = getattr(sys.modules.get(module), "__file__", None)
    if module.partition(".")[0] in OWN or file is None or {"site-packages", "dist-packages"} & set(Path(file).parts):
        return revision
    return f"{revision} {_hash(Path(file))[:16]}"


def raised(revisions: Mapping[str, int | str]) -> str:
    """Return revisions above 1 and those of a user's own code as text: the tag `revisions` of a run."""
    return ", ".join(f"{name} {revision}" for name, revision in sorted(revisions.items()) if revision != 1)


@dataclass(frozen=True)
class Entry:
    """A finished result in the cache.

    Attributes:
        path: its folder.
        fingerprint: hash of the content of its data files (16 hex digits).
        metrics: the metrics of its run.
        facts: other facts that the stage stored, such as tags of its run.
        reused: whether it existed before.
        run: id of the run that records it, where the stage says it.
    """

    path: Path
    fingerprint: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    reused: bool = True
    run: str = ""

    @property
    def key(self) -> str:
        return self.path.name

    @property
    def name(self) -> str:
        """Kind and key, as in the inputs of other results."""
        return f"{self.path.parent.name}/{self.key}"

    @property
    def config(self) -> str:
        """The config as YAML."""
        return read_text(self.path / CONFIG)

    def noted_run(self, record: str) -> tuple[str, str]:
        """Return the id of the run that records the result, and the state of the record when it was seen there.

        Both are empty if no run is noted; the state is empty if the record has none.
        """
        run_id, _, state = str(self._runs().get(record, "")).partition(" ")
        return run_id, state

    def note_run(self, record: str, run_id: str, state: str = "") -> None:
        """Note which run records the result; only a help, which may fail."""
        if self.noted_run(record) != (run_id, state):
            runs = {**self._runs(), record: f"{run_id} {state}".strip()}
            with suppress(OSError):
                (self.path / RUNS).write_text(json.dumps(dict(list(runs.items())[-RUNS_NOTED:])))

    def _runs(self) -> dict[str, Any]:
        with suppress(*DAMAGE), open_regular(self.path / RUNS) as file:
            return dict(json.loads(file.read(1 << 20)))
        return {}


class Store:
    """A results folder. The constructor does not access the disk; `prepare` creates the folder.

    Args:
        root: the folder; None: the environment variable TRANSDUCE_RESULTS, else `results` in the working folder.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        folder = root or os.environ.get(ENVIRONMENT) or "results"
        try:
            self.root = Path(folder).expanduser().resolve()
        except (OSError, RuntimeError, ValueError) as error:  # circular links, or unknown user
            raise InputError(f"results={folder}: not a valid folder ({error}); use another one") from error
        self.database, self.artifacts = self.root / "mlflow.db", self.root / "artifacts"
        self.images = self.cache("images")
        self.tables, self.figures, self.locks = self.root / "tables", self.root / "figures", self.root / "locks"
        self._prepared = False

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    def cache(self, kind: str) -> Path:
        """Return the folder of all results of a kind."""
        return self.root / "cache" / kind

    def prepare(self) -> None:
        """Create the folders, and check that they can be written.

        Raises:
            InputError: they cannot.
        """
        try:
            for folder in () if self._prepared else (self.root / "cache", self.images, self.locks):
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder):
                    pass
        except OSError as error:
            if is_full(error):
                raise
            raise InputError(
                f"cannot write to the results folder {self.root}: {error.strerror}; "
                f"use another one with results=FOLDER or {ENVIRONMENT}=FOLDER"
            ) from error
        self._prepared = True

    @property
    def id(self) -> str:
        """Random id of the folder, created with it."""
        self.prepare()
        path = self.root / "id"
        with locked(self.locks / "id.lock", "the results folder"):
            if not os.path.lexists(path):
                write_text(path, secrets.token_hex(8))
        try:
            with open_regular(path) as opened:
                return opened.read(64).decode("ascii").strip()
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not readable ({error}); remove this file") from error

    def lock(self, kind: str, key: str, what: str, say: Say = silent) -> AbstractContextManager[None]:
        """Hold the lock of a result; print a message if another process holds it for over two seconds."""
        self.prepare()
        return locked(self.locks / f"{kind}-{key}.lock", what, say)

    def try_lock(self, kind: str, key: str) -> AbstractContextManager[bool]:
        """Hold the lock of a result if it is free; yields whether it was free."""
        self.prepare()
        return try_locked(self.locks / f"{kind}-{key}.lock")

    def find(self, kind: str, key: str, say: Say = silent, *, held: bool = False) -> Entry | None:
        """Return a finished result; None if there is none.

        A damaged folder is renamed, with a message. A result that was computed from an earlier version of another
        result in the cache, such as a checkpoint before a forced training, does not count.

        Args:
            say: receives the messages.
            held: whether the caller holds the lock.
        """
        folder = self.cache(kind) / key
        if any(map(os.path.lexists, _beside(folder))):
            with nullcontext(True) if held else self.try_lock(kind, key) as free:
                if free:
                    _put_in_place(folder)
        if not os.path.lexists(folder):
            return None
        try:
            entry = _read(folder)
        except DAMAGE as error:
            self.put_aside(folder, str(error), say)
            return None
        if older := self._older(entry.facts):
            say(f"{entry.name} was computed with an earlier {older.partition('/')[0]}: computing it again")
            return None
        return entry

    def peek(self, kind: str, key: str) -> bool:
        """Return whether a result is in the cache, without reading its data files."""
        with suppress(*DAMAGE):
            return not self._older(_complete(self.cache(kind) / key)["facts"])
        return False

    def _older(self, facts: Mapping[str, Any]) -> str:
        """Return the name of an input that was computed again since; empty if there is none."""
        inputs = dict(facts.get("inputs", {}))
        now = self.fingerprints(*inputs)
        return next((name for name, used in inputs.items() if now.get(name, used) != used), "")

    def put_aside(self, folder: Path, reason: str, say: Say = silent) -> None:
        """Rename a damaged result to `<key>.damaged-N`, so that it can be computed again."""
        numbers = range(1, 10_000)
        aside = next(path for n in numbers if not (path := folder.with_name(f"{folder.name}.damaged-{n}")).exists())
        with suppress(FileNotFoundError):  # another process was first
            os.replace(folder, aside)
        say(f"{folder} is damaged ({reason}); it was renamed to {aside.name} and is computed again")

    def working(self, kind: str, key: str, *, force: bool = False) -> Path:
        """Return the folder with the files of an interrupted computation, created if missing.

        Args:
            force: without the files of a computation that was not forced.
        """
        self.prepare()
        folder = self.cache(kind) / f"{key}.partial"
        if force and not (folder / "forced").exists():
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        if force:
            (folder / "forced").touch()
        return folder

    def publish(
        self,
        kind: str,
        key: str,
        save: Callable[[Path], object],
        *,
        config: str = "",
        metrics: Mapping[str, float] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Write a result to a temporary folder and rename it; an earlier result is replaced. The caller holds the lock.

        Args:
            save: writes the data files to a folder.
            config: the config as YAML.
            metrics: the metrics of its run.
            facts: other facts as JSON values; `inputs` maps names of entries to the fingerprints that were used.
        """
        self.prepare()
        folder = self.cache(kind) / key
        _put_in_place(folder)
        new, _ = _beside(folder)
        new.mkdir(parents=True)
        save(new)
        data = sorted(path.name for path in new.iterdir() if path.suffix != ".md")
        (new / CONFIG).write_text(config, encoding="utf-8")
        (new / METRICS).write_text(json.dumps(dict(metrics or {}), indent=1), encoding="utf-8")
        files = {
            path.name: {"size": path.stat().st_size, "sha256": _hash(path), "content": content_hash(path)}
            for path in (new / name for name in (*data, CONFIG, METRICS))
        }
        text = "".join(f"{name} {files[name]['content']}\n" for name in data)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
        complete = {"key": key, "fingerprint": fingerprint, "files": files, "facts": dict(facts or {})}
        write_text(new / COMPLETE, json.dumps(complete, indent=1))
        _put_in_place(folder)
        shutil.rmtree(folder.with_name(f"{key}.partial"), ignore_errors=True)
        return replace(_read(folder), reused=False)

    def fingerprints(self, *names: str) -> dict[str, str]:
        """Return the fingerprints of results in the cache, by `Entry.name`; those that are missing are left out."""
        found = {}
        for name in names:
            with suppress(*DAMAGE):
                found[name] = str(_complete(self.root / "cache" / name)["fingerprint"])
        return found


def _beside(folder: Path) -> tuple[Path, Path]:
    """Return where a result is written, and where the earlier one is while it is replaced."""
    return folder.with_name(f"{folder.name}.new"), folder.with_name(f"{folder.name}.old")


def _put_in_place(folder: Path) -> None:
    """Give a result that was written its name, also after an interruption; remove one that was half written."""
    new, old = _beside(folder)
    if (new / COMPLETE).is_file():
        if os.path.lexists(folder):
            shutil.rmtree(old, ignore_errors=True)
            os.replace(folder, old)
        os.replace(new, folder)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)


def _complete(folder: Path) -> dict[str, Any]:
    with open_regular(folder / COMPLETE) as file:
        complete = json.load(file)
    if not isinstance(complete, dict) or complete.get("key") != folder.name:
        raise ValueError(f"{COMPLETE} is of another result")
    return complete


def _read(folder: Path) -> Entry:
    """Return a result whose files have the right checksums.

    Raises:
        OSError, ValueError, KeyError: a file is missing or changed.
    """
    complete = _complete(folder)
    for name, noted in complete["files"].items():
        path = folder / name
        state = os.stat(path)
        if _checked.get(str(path)) == (state.st_size, state.st_mtime_ns):
            continue
        if state.st_size != noted["size"] or _hash(path) != noted["sha256"]:
            raise ValueError(f"{name} was truncated or changed")
        _checked[str(path)] = (state.st_size, state.st_mtime_ns)
    with open_regular(folder / METRICS) as file:
        metrics = {str(name): float(value) for name, value in json.load(file).items()}
    return Entry(folder, str(complete["fingerprint"]), metrics, dict(complete["facts"]))


def _hash(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(path: Path) -> str:
    """SHA-256 of a file's content, independent of the order of the keys in the header of a safetensors file."""
    if path.suffix != ".safetensors":
        return _hash(path)
    with open_regular(path) as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
