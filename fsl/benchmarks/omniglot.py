"""Omniglot: 1,623 hand-written characters of 50 alphabets, each by 20 people (Lake et al., Science 2015)."""

import contextlib
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from clustering.files.arrays import UNREADABLE, read_arrays
from clustering.files.regular import open_regular
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Validated
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import Decoded, Split, fingerprint
from fsl.benchmarks.listed import rows_of

RECIPE = 1  # increased with every change that gives other images for the same files
SIDE, DRAWERS, CHARACTERS = 105, 20, 1623
_LARGEST = 1 << 20  # maximum size of a drawing in bytes


class Drawings(NamedTuple):
    """All drawings, sorted by alphabet, character and drawer.

    Attributes:
        ink: (N, 1379) uint8, the 105 x 105 pixels of each drawing, packed eight per byte; 1 is ink.
        alphabets: (N,) names of alphabets.
        characters: (N,) numbers of characters within their alphabet, from 1.
        drawers: (N,) numbers of drawers, 1..20.
    """

    ink: NDArray[np.uint8]
    alphabets: NDArray[np.str_]
    characters: NDArray[np.int64]
    drawers: NDArray[np.int64]


@dataclass(frozen=True)
class Omniglot(Validated):
    """Omniglot as 28 x 28 grey images, with bright ink on black and 20 drawings per class.

    `split="vinyals"` is the common split. It has 1,028 base, 172 validation and 423 novel characters. Each rotation of
    a character by 0, 90, 180 and 270 degrees is a separate class, which gives 4,112 / 688 / 1,692 classes.
    `split="background"` is Lake's split without rotations. The novel classes are the 659 characters of the 20
    evaluation alphabets. The 30 background alphabets give the validation classes (five alphabets)
    and the base classes (the others): 792 / 172 / 659 classes.

    Attributes:
        root: folder with `omniglot.npz`, or with images_background and images_evaluation (.zip or unpacked).
        split: name of the division into base, validation and novel classes.
    """

    root: str | None = None
    split: Literal["vinyals", "background"] = "vinyals"

    name: ClassVar[str] = "omniglot"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    mean: ClassVar[tuple[float, ...]] = (0.078,)
    std: ClassVar[tuple[float, ...]] = (0.216,)
    augmentation: ClassVar[Augmentation] = Augmentation(rotation=10, translation=0.07, scale=0.12, shear=8)

    def source(self) -> str:
        """Identity of the split and of the files: the bytes of archives, the names and sizes of files in folders."""
        digests = []
        for path in find(self.root):
            files = sorted(path.glob("*/*/*.png"))
            parts = [f"{file.relative_to(path)} {file.stat().st_size}" for file in files]
            digests.append(fingerprint(path.read_bytes()) if path.is_file() else fingerprint(*parts))
        return fingerprint("omniglot", RECIPE, self.split, *digests)

    def read(self, split: Split) -> Decoded:
        """Decode a split: images (N, 1, 28, 28), with classes sorted by alphabet, character and rotation.

        Both divisions validate on the same five background alphabets. Vinyals' list consists of whole alphabets, except
        for the last four characters of Gurmukhi.

        Raises:
            InputError: files are missing, damaged or incomplete.
        """
        ink, alphabets, characters, _ = load(find(self.root))
        listed = {row["alphabet"]: row[self.split] for row in rows_of("omniglot")}
        splits = np.array([listed.get(alphabet, "base") for alphabet in alphabets.tolist()], "U10")
        if self.split == "vinyals":
            splits[(alphabets == "Gurmukhi") & (characters >= 42)] = "novel"
        rows = splits == split
        upright = shrink(ink[rows], self.size)
        turns = range(4) if self.split == "vinyals" else range(1)
        # (characters, rotations, drawers, 28, 28): rotated to the left, as in the lists of the split
        images = np.stack([np.rot90(upright, turn, (1, 2)) for turn in turns])
        images = images.reshape(len(turns), -1, DRAWERS, self.size, self.size).swapaxes(0, 1)
        images = np.ascontiguousarray(images).reshape(-1, 1, self.size, self.size)
        first = np.flatnonzero(rows)[::DRAWERS]
        names = tuple(
            f"{alphabet}/character{character:02d}" + (f"/rot{90 * turn:03d}" if len(turns) > 1 else "")
            for alphabet, character in zip(alphabets[first], characters[first], strict=True)
            for turn in turns
        )
        return Decoded(images, np.repeat(np.arange(len(names)), DRAWERS), names)


def find(root: str | None) -> list[Path]:
    """The files or folders under `root` that contain Omniglot.

    Raises:
        InputError: there are none.
    """
    folder = Path(root or "").expanduser()
    forms = [[folder / part, folder / f"{part}.zip"] for part in ("images_background", "images_evaluation")]
    forms = [[archive]] if (archive := folder / "omniglot.npz").is_file() else forms
    paths = [path for form in forms if (path := next(filter(Path.exists, form), None))]
    if root and len(paths) == len(forms):
        return paths
    raise InputError(
        f"benchmark omniglot: {f'not all files in {folder}' if root else 'no folder given'}; pass root=FOLDER with "
        "omniglot.npz, or images_background and images_evaluation (as .zip or unpacked); they come from "
        "github.com/brendenlake/omniglot, folder python"
    )


def load(paths: list[Path]) -> Drawings:
    """All drawings of these files or folders (see `find`).

    Raises:
        InputError: a file cannot be read or does not belong to Omniglot, or characters are missing.
    """
    parts = []
    for path in paths:
        try:
            parts.append(_archive(path) if path.suffix == ".npz" else _pictures(path))
        except (*UNREADABLE, Image.DecompressionBombError) as error:
            raise InputError(f"{path}: damaged, or not Omniglot ({error}); download it again") from error
    ink, alphabets, characters, drawers = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((drawers, characters, alphabets))
    lacking = {row["alphabet"] for row in rows_of("omniglot")} - set(alphabets.tolist())
    if lacking or not np.array_equal(drawers[order], np.tile(np.arange(1, DRAWERS + 1), CHARACTERS)):
        missing = f", none of {', '.join(sorted(lacking))}" if lacking else ""
        raise InputError(
            f"{paths[0].parent}: {len(order):,} drawings{missing}; Omniglot has {CHARACTERS:,} characters by "
            f"{DRAWERS} people each; download the files again"
        )
    return Drawings(ink[order], alphabets[order], characters[order], drawers[order])


def _archive(path: Path) -> Drawings:
    file = read_arrays(path)
    alphabets = file["alphabet_names"][file["alphabet"]]
    return Drawings(file["ink_bits"], alphabets, file["character"].astype(np.int64), file["drawer"].astype(np.int64))


def _pictures(path: Path) -> Drawings:
    """Drawings of a zip file or folder of the official layout, ALPHABET/characterNN/NNNN_DD.png."""
    rows = []
    with contextlib.ExitStack() as stack:
        names = sorted(map(str, path.glob("*/character*/*.png")))
        opened: Callable[[str], IO[bytes]] = open_regular
        if not path.is_dir():
            archive = stack.enter_context(zipfile.ZipFile(path))
            names = [name for name in archive.namelist() if name.endswith(".png") and not name.startswith("__MACOSX")]
            opened = archive.open
        for name in names:
            alphabet, character, file = PurePath(name).parts[-3:]
            with opened(name) as stream, Image.open(io.BytesIO(stream.read(_LARGEST))) as picture:
                if picture.size != (SIDE, SIDE):
                    raise ValueError(f"{name} has {picture.width} x {picture.height} pixels, not {SIDE} x {SIDE}")
                ink = np.packbits(np.asarray(picture.convert("L")) < 128)  # the pictures have black ink on white
            drawer = PurePath(file).stem.rpartition("_")[2]
            rows.append((ink, alphabet, int(character.removeprefix("character")), int(drawer)))
    if not rows:
        raise ValueError("it contains no ALPHABET/characterNN/NNNN_DD.png")
    return Drawings(*map(np.array, zip(*rows, strict=True)))


def shrink(ink: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Convert packed drawings (N, 1379) to antialiased images (N, size, size) uint8; 255 is a pixel full of ink."""
    small = np.empty((len(ink), size, size), np.uint8)
    for start in range(0, len(ink), 1024):
        bits = np.unpackbits(ink[start : start + 1024], axis=1, count=SIDE * SIDE)
        full = torch.from_numpy(bits).view(-1, 1, SIDE, SIDE).float() * 255
        scaled = functional.interpolate(full, size=(size, size), mode="bilinear", antialias=True)
        small[start : start + 1024] = scaled.round().clamp(0, 255).to(torch.uint8).squeeze(1).numpy()
    return small
