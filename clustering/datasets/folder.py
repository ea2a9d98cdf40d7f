"""A user's images in a folder, to be clustered directly or by learned features."""

import functools
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset, numbered
from clustering.files.pictures import PICTURES, Fit, open_picture, pictures_under, read_heif, squared
from clustering.files.regular import open_regular, read_bytes, state_of
from clustering.foundation.cores import on_each_core
from clustering.foundation.errors import InputError, InputWarning
from clustering.foundation.fingerprint import Fingerprint, fingerprint
from clustering.foundation.parameters import Validated, Within

RECIPE = 1  # increase it when the same files would give other points


@dataclass(frozen=True)
class Folder(Validated):
    """Square versions of images, rotated upright as their EXIF data say.

    The sub-folders of the images, if there are any, are their classes, which are used only for comparison with the
    result.

    Attributes:
        root: the folder. The names and content of its images are part of a run's identity, its location is not.
        size: side of the squares in pixels.
        colour: "rgb" or "grey".
        fit: how images become square: by cropping the centre or by squeezing.
        classes: "folders" takes sub-folders as classes; null means that no class is known.
        broken: images that cannot be read: "raise" (an error), or "skip" with a warning that names them.
    """

    name: ClassVar[str] = "folder"

    root: str | None = None
    size: Annotated[int, Within(8, 1024)] = 32
    colour: Literal["rgb", "grey"] = "rgb"
    fit: Fit = "crop"
    classes: Literal["folders"] | None = "folders"
    broken: Literal["raise", "skip"] = "raise"

    def source(self) -> str:
        """Fingerprint of the names and content of the images; file sizes would not distinguish uncompressed images.

        Raises:
            InputError: there are no images, or one cannot be read.
        """
        folder = self._folder()
        names = self._names(folder)
        try:
            content = _content(folder, tuple(names), tuple(state_of(folder / name) for name in names))
        except OSError as error:
            raise InputError(
                f"dataset folder: {error.filename} cannot be read ({error.strerror}); remove it"
            ) from error
        return fingerprint(content, "heif") if self.broken == "skip" and read_heif() else content  # it reads more files

    def read(self) -> Dataset:
        folder = self._folder()
        names = self._names(folder)
        channels = 3 if self.colour == "rgb" else 1
        points = np.empty((len(names), channels * self.size**2), dtype=np.float32)
        kept, broken = list[str](), list[str]()
        for name, found in on_each_core(lambda name: self._picture(folder / name), names):
            if not isinstance(found, InputError):
                points[len(kept)] = found
                kept.append(name)
            elif self.broken == "raise":
                raise InputError(f"{found}; or skip such files: broken=skip")
            else:
                broken.append(str(found))
        if len(kept) < 2:
            raise InputError(broken[0])
        for problem in broken:
            warnings.warn(f"skipped: {problem}", InputWarning, stacklevel=2)
        names, points = kept, points[: len(kept)]
        points /= 255
        labels, classes = self._classes(names)
        square = (self.size, self.size)
        return Dataset(points, labels, classes, picture=square, channels=channels, names=tuple(names))

    def _folder(self) -> Path:
        if not self.root:
            raise InputError("dataset folder: no folder given; add root=FOLDER with pictures, in sub-folders or not")
        folder = Path(self.root).expanduser()
        if not folder.is_dir():
            raise InputError(f"dataset folder: {folder} is not a folder; set root=FOLDER to a folder with pictures")
        return folder

    def _names(self, folder: Path) -> list[str]:
        """Paths of the images relative to the folder, with /."""
        names = [os.path.relpath(file, folder).replace(os.sep, "/") for file in pictures_under(folder)]
        if len(names) < 2:
            raise InputError(
                f"dataset folder: {folder} does not contain {'a second picture' if names else 'pictures'} "
                f"({', '.join(PICTURES)}); set another root=FOLDER"
            )
        return sorted(names)

    def _classes(self, names: list[str]) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
        """Sub-folder of each image, if all images are in sub-folders and there are several of these."""
        places = [name.partition("/") for name in names]
        if self.classes is None or not all(slash for _, slash, _ in places):
            return None, ()
        labels, classes = numbered(np.array([first for first, _, _ in places]))
        return (labels, classes) if len(classes) > 1 else (None, ())

    def _picture(self, path: Path) -> NDArray[np.uint8] | InputError:
        """(D,) pixels, channel by channel; the error, which names the image, if it cannot be read or decoded."""
        mode: Literal["RGB", "L"] = "RGB" if self.colour == "rgb" else "L"
        try:
            picture = open_picture(read_bytes(path), str(path), least=self.size, upright=True, mode=mode)
        except InputError as error:
            return error
        pixels = np.asarray(squared(picture, self.size, self.fit))
        return np.atleast_3d(pixels).transpose(2, 0, 1).ravel()


@functools.lru_cache(maxsize=8)  # one command may contain many configs of a folder
def _content(folder: Path, names: tuple[str, ...], states: tuple[tuple[int, ...], ...]) -> str:
    whole = Fingerprint("folder of points", RECIPE)
    for name, content in on_each_core(lambda name: _digest(folder / name), names):
        whole.add(name)
        whole.add(content)
    return str(whole)


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return fingerprint(file.read())
