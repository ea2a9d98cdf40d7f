"""Data sets in files that a user provides: which files these are, and what is said if they are missing or damaged."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from clustering.files.regular import fingerprint_of_files
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Validated


@dataclass(frozen=True)
class ProvidedFiles(Validated):
    """A data set in files, each plain or compressed (.gz). The class attributes say which.

    Attributes:
        root: folder with the files.
    """

    name: ClassVar[str]
    recipe: ClassVar[int] = 1
    """Increased when the same files would give other points."""
    content: ClassVar[str] = ""
    """What the files contain, for messages."""
    forms: ClassVar[Sequence[Sequence[str]]]
    """Alternatives, each the names of some files."""

    root: str | None = None

    def source(self) -> str:
        return fingerprint_of_files(self._files(), self.name, self.recipe)

    def _files(self) -> list[Path]:
        """The files of the first alternative that is complete.

        Raises:
            InputError: there is no such folder, or no alternative is complete; the message says what belongs in it.
        """
        described = self.content and f"; {self.content}"
        wanted = f"{', or '.join(' and '.join(form) for form in self.forms)} (plain or .gz{described})"
        if self.root is None:
            raise self._error(f"no folder given; add root=FOLDER with {wanted}")
        folder = Path(self.root).expanduser()
        if not folder.is_dir():
            raise self._error(f"{folder} is not a folder; set root=FOLDER to a folder with {wanted}")
        for form in self.forms:
            found = [next((p for p in (folder / file, folder / f"{file}.gz") if p.is_file()), None) for file in form]
            if None not in found:
                return [path for path in found if path is not None]
        raise self._error(f"{folder} does not contain {wanted}; put it there, or set another root=FOLDER")

    def _error(self, problem: str) -> InputError:
        return InputError(f"dataset {self.name}: {problem}")

    def _damaged(self, path: Path, error: Exception) -> InputError:
        """The error that a file is not what its name says; an InputError is returned unchanged."""
        if isinstance(error, InputError):
            return error
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        reason += self.content and f"; it should have {self.content}"
        return self._error(f"{path} cannot be read ({reason}); download it again")
