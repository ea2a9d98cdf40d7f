"""The results folder: its cache, and atomic publication of finished results.

    results/
        mlflow.db               the record of all runs (runs/record/tracking.py)
        artifacts/              small files of the runs
        cache/images/           decoded benchmarks
        cache/checkpoints/      <identity>/best.safetensors, README.md
        cache/graphs/           neighbour graphs of data sets, by fingerprint
        cache/features/         <identity>/features.safetensors, README.md
        cache/evaluations/      <identity>.partial/, intermediate results of long evaluations
        cache/unrecorded/       <stage>-<identity>/, results whose runs are not finished yet (runs/record/unrecorded.py)
        tables/                 comparisons as Markdown and CSV, pictures
        figures/                figures for print
        locks/                  one file per identity

A stage writes to `<identity>.partial/`, which is renamed to `<identity>/` when it is complete.
"""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from clustering.files.atomic import replacing
from clustering.foundation.errors import InputError
from runs.storage.locks import Say, locked, silent, try_locked

Kind = Literal["checkpoints", "features", "evaluations", "unrecorded"]
ENVIRONMENT = "TRANSDUCE_RESULTS"
COMPLETE = "complete.json"
CARD = "README.md"
HASHED = 64 << 20  # the hash is not checked when a larger file is opened, only the size


@dataclass(frozen=True)
class Entry:
    """A finished folder of the cache.

    Attributes:
        path: the folder.
        fingerprint: hash of its files' contents (16 hex digits).
        facts: facts recorded by the stage.
        reused: whether it existed before.
    """

    path: Path
    fingerprint: str
    facts: dict[str, Any] = field(default_factory=dict)
    reused: bool = True

    @property
    def identity(self) -> str:
        """Identity of the result."""
        return self.path.name

    @property
    def run_id(self) -> str:
        """Id of the run that made it; empty if no run did."""
        return str(self.facts.get("run", ""))


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
        self._prepared = False

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    @property
    def database(self) -> Path:
        return self.root / "mlflow.db"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def images(self) -> Path:
        return self.root / "cache" / "images"

    @property
    def graphs(self) -> Path:
        return self.root / "cache" / "graphs"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def figures(self) -> Path:
        return self.root / "figures"

    @property
    def locks(self) -> Path:
        return self.root / "locks"

    def prepare(self) -> None:
        """Create the folders and check that they can be written.

        Raises:
            InputError: the store cannot be written.
        """
        if self._prepared:
            return
        with self.watched():
            for folder in (self.images, self.cache("checkpoints"), self.cache("features"), self.locks):
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    with tempfile.TemporaryFile(dir=folder):
                        pass
                except OSError as error:
                    if _is_disk_full(error):
                        raise
                    raise self._unwritable(error) from error
        for kind in get_args(Kind):
            for old in self.cache(kind).glob("*.old-*"):  # left by a process that was killed while deleting
                name = old.name.rpartition(".old-")[0]
                if (old / name).exists() and (old.parent / name).exists():
                    shutil.rmtree(old, ignore_errors=True)
        self._prepared = True

    def cache(self, kind: Kind) -> Path:
        return self.root / "cache" / kind

    def lock(self, stage: str, identity: str, what: str, say: Say = silent) -> AbstractContextManager[None]:
        """Hold the lock of a stage and identity; if another process holds it, a message names what is waited for."""
        self.prepare()
        return locked(self.lock_path(stage, identity), what, say)

    def try_lock(self, stage: str, identity: str) -> AbstractContextManager[bool]:
        """Hold the lock of a stage and identity if it is free; yields whether it was free."""
        self.prepare()
        return try_locked(self.lock_path(stage, identity))

    def lock_path(self, stage: str, identity: str) -> Path:
        return self.locks / f"{stage}-{identity}.lock"

    def peek(self, kind: Kind, identity: str) -> Entry | None:
        """The finished folder of an identity; None if it is missing or damaged. Changes nothing."""
        folder = self.cache(kind) / identity
        try:
            record = json.loads((folder / COMPLETE).read_text())
            files, facts = dict(record["files"]), dict(record.get("facts", {}))
            sound = (
                bool(files)
                and record["identity"] == identity
                and all(_is_intact(folder / name, noted["size"], noted["sha256"]) for name, noted in files.items())
            )
            return Entry(folder, _fingerprint(files), facts) if sound else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def facts(self, kind: Kind) -> list[dict[str, Any]]:
        """The facts recorded for each finished folder, the newest first, without any check."""
        entries = []
        for path in self.cache(kind).glob(f"*/{COMPLETE}"):
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                entries.append((path.stat().st_mtime_ns, str(path), dict(json.loads(path.read_text())["facts"])))
        return [facts for *_, facts in sorted(entries, key=lambda noted: noted[:2], reverse=True)]

    def find(self, kind: Kind, identity: str, say: Say = silent) -> Entry | None:
        """Like `peek`, but a damaged folder is renamed, with a message. The caller must hold the lock."""
        folder = self.cache(kind) / identity
        if not folder.exists():
            self._settle(folder)
        entry = self.peek(kind, identity)
        if entry is None and folder.exists():
            self.put_aside(folder, say)
        return entry

    def _settle(self, folder: Path) -> None:
        """Complete a `put_in_place` that was killed between its two renames: both folders are complete then."""
        partial = folder.with_name(f"{folder.name}.partial")
        if (partial / COMPLETE).exists():
            os.replace(partial, folder)
        for old in folder.parent.glob(f"{folder.name}.old-*"):
            if not folder.exists() and (old / folder.name).exists():
                os.replace(old / folder.name, folder)
            shutil.rmtree(old)

    def put_aside(self, folder: Path, say: Say = silent) -> None:
        """Rename a damaged folder to `<name>.damaged-N`, so that the result can be computed again."""
        aside = next(
            path for n in range(1, 10_000) if not (path := folder.with_name(f"{folder.name}.damaged-{n}")).exists()
        )
        os.replace(folder, aside)
        say(
            f"{folder} is damaged (a file is missing, truncated or changed); it was renamed to "
            f"{aside.name} and is computed again"
        )

    def partial(self, kind: Kind, identity: str, *, fresh: bool = False) -> Path:
        """The folder in which a result is computed, with the files of an interrupted process unless `fresh`."""
        self.prepare()
        folder = self.cache(kind) / f"{identity}.partial"
        with self.watched():
            if fresh and folder.exists():
                shutil.rmtree(folder)
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def publish(
        self,
        kind: Kind,
        identity: str,
        names: Iterable[str],
        facts: Mapping[str, Any],
        card: Callable[[str], str] | None = None,
    ) -> Entry:
        """Rename the partial folder to its final name and list the files `names` in its complete.json.

        An existing finished folder (with `--force`) is replaced.

        Args:
            card: returns the text of README.md for the folder's fingerprint. complete.json does not list this file.
        """
        partial, folder = self.partial(kind, identity), self.cache(kind) / identity
        files = {
            name: {
                "size": (partial / name).stat().st_size,
                "sha256": _hash(partial / name),
                "content": content_hash(partial / name),
            }
            for name in sorted(names)
        }
        record = {"identity": identity, "files": files, "facts": dict(facts)}
        with self.watched():
            if card is not None:
                write_text(partial / CARD, card(_fingerprint(files)))
            write_text(partial / COMPLETE, json.dumps(record, indent=1))
            put_in_place(partial, folder)
        return Entry(folder, _fingerprint(files), dict(facts), reused=False)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Turn the errors that libraries raise for a full or read-only disk into one plain error.

        Raises:
            InputError: the store cannot be written.
            OSError: with errno ENOSPC, and a message that lists the files that are kept.
        """
        try:
            yield
        except Exception as error:
            if _is_disk_full(error):
                raise OSError(
                    errno.ENOSPC,
                    "the disk is full; finished results are kept: free some space and rerun the same command",
                    str(self.root),
                ) from error
            if self._is_unwritable(error):
                raise self._unwritable(error) from error
            raise

    def _unwritable(self, error: Exception) -> InputError:
        reason = error.strerror if isinstance(error, OSError) else "it is read-only"
        return InputError(
            f"cannot write to the results folder {self.root}: {reason}; "
            f"use another one with results=FOLDER or {ENVIRONMENT}=FOLDER"
        )

    def _is_unwritable(self, error: BaseException) -> bool:
        if not isinstance(error, OSError):
            return "attempt to write a readonly database" in str(error).lower()
        if error.errno not in (
            errno.EACCES,
            errno.EPERM,
            errno.EROFS,
            errno.ENOTDIR,
            errno.EEXIST,
            errno.ENXIO,
            errno.ELOOP,
            errno.ENAMETOOLONG,
        ):
            return False
        place = Path(str(error.filename or self.root))
        return place.is_relative_to(self.root) or self.root.is_relative_to(place)


def put_in_place(partial: Path, folder: Path) -> None:
    """Rename a finished folder to its final name; an existing folder is renamed first and then deleted."""
    if not folder.exists():
        os.replace(partial, folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f"{folder.name}.old-", dir=folder.parent))
    os.replace(folder, old / folder.name)
    os.replace(partial, folder)
    shutil.rmtree(old, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step: a concurrent reader gets the old or the new content."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _is_disk_full(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return True
    # SQLite, safetensors and torch raise errors of their own for a full disk.
    text = str(error).lower()
    return any(
        words in text for words in ("no space left on device", "database or disk is full", "disk quota exceeded")
    )


def _is_intact(path: Path, size: int, sha256: str) -> bool:
    return path.stat().st_size == size and (size > HASHED or _hash(path) == sha256)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(path: Path) -> str:
    """SHA-256 of a file's content, independent of the order of the keys in the header of a safetensors file."""
    if path.suffix != ".safetensors":
        return _hash(path)
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _fingerprint(files: Mapping[str, Mapping[str, Any]]) -> str:
    text = json.dumps({name: noted["content"] for name, noted in sorted(files.items())})
    return hashlib.sha256(text.encode()).hexdigest()[:16]
