"""Characters of many scripts, drawn with the fonts that matplotlib includes: a benchmark without a download.

A class is one code point. Base classes are Latin, Greek and Cyrillic letters, validation classes are Armenian
and Georgian letters, and novel classes are letters of seven other scripts. The face, size, rotation, shear, bend,
shift, stroke width and noise of each sample are random and depend on the seed.
"""

import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import matplotlib
import numpy as np
from matplotlib import ft2font
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import maximum_filter, minimum_filter

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, Validated
from clustering.foundation.streams import stream
from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.benchmark import Decoded, Split, fingerprint
from fsl.benchmarks.listed import class_lists

RECIPE = 2  # increased with every change that gives other images for the same seed, so that old caches are not used

# Faces with these letters at their own code points; the first face has all of them. Fonts of symbols and sizes are
# omitted, and so is LastResort, which draws a box for every character.
FACES = (
    "DejaVuSans",
    *("DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("DejaVuSansMono", "DejaVuSansMono-Oblique"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic"),
)
CANVAS, GLYPH = 64, 40
"""In pixels, the square of a drawn glyph and the glyph's longer side, at twice the scale of a sample."""
UNHINTED: Any = ft2font.LoadFlags.NO_HINTING
FIXED = 1 << 16  # sub-pixel positions are integers in this unit: samples are equal on every machine


@dataclass(frozen=True)
class Glyphs(Validated):
    """Characters of many scripts from matplotlib's fonts, as 28 x 28 grey images with bright ink on black.

    The images have identical bytes for the same seed and the same version of matplotlib.

    Attributes:
        samples: number of images per class.
        seed: seed of the samples; the classes do not depend on it.
    """

    samples: Annotated[int, AtLeast(1)] = 30
    seed: Annotated[int, AtLeast(0)] = 0

    name: ClassVar[str] = "glyphs"
    channels: ClassVar[int] = 1
    size: ClassVar[int] = 28
    mean: ClassVar[tuple[float, ...]] = (0.142,)
    std: ClassVar[tuple[float, ...]] = (0.227,)
    augmentation: ClassVar[Augmentation] = Augmentation(rotation=8, translation=0.05, scale=0.1, shear=6)

    def source(self) -> str:
        """Identity of the fonts, the recipe and the fields, computed without drawing."""
        versions = (matplotlib.__version__, ft2font.__freetype_version__, unicodedata.unidata_version)
        return fingerprint("glyphs", RECIPE, *versions, self.samples, self.seed)

    def read(self, split: Split) -> Decoded:
        """Draw the samples of a split: images (N, 1, 28, 28), with classes in the order of code points."""
        letters = classes()[split]
        labels = np.repeat(np.arange(len(letters)), self.samples)
        images = _samples(letters, labels, stream(self.seed, "glyphs", split), self.size)
        names = tuple(f"U+{ord(letter):04X} {unicodedata.name(letter)}" for letter in letters)
        return Decoded(images[:, None], labels, names)


@cache
def classes() -> dict[Split, str]:
    """The letters of each split in the list of classes: those of the first face without an accent, and of letters that
    look alike in any two faces the first only (see tests/fsl/test_glyphs.py)."""
    return {split: "".join(chr(int(name[2:], 16)) for name in names) for split, names in class_lists("glyphs").items()}


@cache
def _font(face: str) -> ft2font.FT2Font:
    path = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{face}.ttf")
    if not path.is_file():
        raise InputError(f"benchmark glyphs: matplotlib's font {path} is missing; install matplotlib again")
    return ft2font.FT2Font(str(path))


def drawing(letter: str, face: str) -> NDArray[np.uint8] | None:
    """A letter centred in 64 x 64 pixels with a longer side of 40; None if the face does not have it."""
    font = _font(face)
    if not font.get_char_index(ord(letter)):
        return None
    # Scaled by its own ink, so that an upper-case and a lower-case letter of equal shape become one class.
    font.set_size(GLYPH, 72)
    left, bottom, right, top = font.load_char(ord(letter), flags=UNHINTED).bbox  # in 64ths of a pixel
    if right <= left or top <= bottom:
        return None
    font.set_size(GLYPH * GLYPH * 64 / max(right - left, top - bottom), 72)
    font.set_text(letter, 0.0, flags=UNHINTED)
    font.draw_glyphs_to_bitmap(antialiased=True)
    image = Image.fromarray(np.asarray(font.get_image(), np.uint8))
    ink = image.crop(image.getbbox())
    canvas = Image.new("L", (CANVAS, CANVAS))
    canvas.paste(ink, ((CANVAS - ink.width) // 2, (CANVAS - ink.height) // 2))
    return np.asarray(canvas) if image.getbbox() else None


def _samples(letters: str, labels: NDArray[np.int64], random: np.random.Generator, size: int) -> NDArray[np.uint8]:
    """One image (size, size) for each label."""
    faces = [[glyph for face in FACES if (glyph := drawing(letter, face)) is not None] for letter in letters]
    counts = np.array([len(drawings) for drawings in faces])
    glyphs = np.stack([glyph for drawings in faces for glyph in drawings])
    total = len(labels)
    face = (np.cumsum(counts) - counts)[labels] + random.integers(0, counts[labels])
    angle, shear = random.uniform(-0.4, 0.4, total), random.uniform(-0.4, 0.4, total)
    scale, stretch = random.uniform(0.65, 1.05, total), random.uniform(0.83, 1.2, total)
    bend, shift = random.uniform(-6, 6, (2, 3, total)), random.uniform(-5, 5, (1, 2, total))  # in subpixels
    stroke = random.integers(-192, 257, total)
    contrast, noise = random.integers(120, 257, total), random.integers(0, 128, total)

    # Position in the drawing of a sample's subpixel (x, y): linear in x, y and, for the bend, in x^2, xy, y^2.
    cosine, sine = np.cos(angle), np.sin(angle)
    turn = np.array([[cosine, shear * cosine - sine], [sine, shear * sine + cosine]])
    turn = turn / np.stack([scale * stretch, scale / stretch])
    middle = (CANVAS - 1) / 2 - (turn * shift).sum(1)
    maps = np.concatenate([middle[:, None], turn / 2, bend / (2 * size) ** 2], 1)
    maps = np.rint(maps * FIXED).astype(np.int32)

    images = np.empty((total, size, size), np.uint8)
    for start in range(0, total, 256):
        part = slice(start, start + 256)
        inked = _stroked(glyphs[face[part]], stroke[part])
        fine = _resampled(inked, maps[..., part], 2 * size)
        clean = fine.reshape(-1, size, 2, size, 2).sum((2, 4)) >> 2
        grain = random.integers(-255, 256, clean.shape, np.int32) * noise[part, None, None] >> 8
        images[part] = np.clip((clean * contrast[part, None, None] >> 8) + grain, 0, 255)
    return images


def _stroked(glyphs: NDArray[np.uint8], stroke: NDArray[np.int64]) -> NDArray[np.int32]:
    """Widen the strokes of drawings (n, 64, 64), up to one pixel on each side at 256, or thin them below 0."""
    amount = stroke.astype(np.int32)[:, None, None]
    other = np.where(amount > 0, maximum_filter(glyphs, (1, 3, 3)), minimum_filter(glyphs, (1, 3, 3))).astype(np.int32)
    stroked: NDArray[np.int32] = (glyphs * (256 - abs(amount)) + other * abs(amount)) >> 8
    return stroked


def _resampled(glyphs: NDArray[np.int32], maps: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """Sample drawings (n, 64, 64) at (size, size) points each, by bilinear interpolation in integer arithmetic.

    `maps` (2, 6, n) contains the coefficients of 1, x, y, x^2, xy, y^2 for the column and the row of a point, in
    units of 1/FIXED; x and y are in half pixels from the centre.
    """
    x = np.arange(1 - size, size, 2, dtype=np.int32)
    y = x[:, None]
    constant, *others = maps[..., None, None].swapaxes(0, 1)
    terms = zip(others, (x, y, x * x, x * y, y * y), strict=True)
    place = constant + sum(coefficient * power for coefficient, power in terms)
    column, row = np.clip(place // FIXED, 0, CANVAS - 2)  # the border is empty
    right, below = (place % FIXED) >> 8
    corner = np.arange(len(glyphs), dtype=np.int32)[:, None, None] * CANVAS**2 + row * CANVAS + column
    flat = glyphs.reshape(-1)
    upper = flat[corner] * (256 - right) + flat[corner + 1] * right
    lower = flat[corner + CANVAS] * (256 - right) + flat[corner + CANVAS + 1] * right
    resampled: NDArray[np.int32] = (upper * (256 - below) + lower * below) >> 16
    return resampled
