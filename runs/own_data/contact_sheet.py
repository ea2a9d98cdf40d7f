"""The page about classified pictures: thumbnails by predicted class, the least certain first."""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from clustering.foundation.cores import on_each_core
from clustering.foundation.progress import Progress, quiet
from fsl.benchmarks.encoded import EncodedPictures, read_bytes
from runs.report.rendering import environment

SIDE = 96  # side of a thumbnail in pixels
SHOWN = 2000  # maximum number of thumbnails of about 4 kB each, to limit the size of the page
EXAMPLES = 8  # labelled pictures shown per class


@dataclass(frozen=True)
class Sheet:
    """The content of the page.

    Attributes:
        title: title of the page.
        files, names: paths and displayed names of the N classified pictures.
        classes: the K class names.
        probabilities: (N, K) class probabilities.
        examples: files of labelled pictures by class.
        truth: class of each picture by its folder; None if unknown.
        said: explanations for the reader.
        warnings: warnings for the reader.
        broken: error messages of pictures that could not be read.
        method, command, facts: how the result was computed.
        rows: name of the CSV file of all probabilities.
    """

    title: str
    files: Sequence[str]
    names: Sequence[str]
    classes: Sequence[str]
    probabilities: NDArray[np.floating]
    examples: Mapping[str, Sequence[str]]
    truth: Sequence[str] | None
    said: Sequence[str]
    warnings: Sequence[str]
    broken: Sequence[str]
    method: str
    command: str
    rows: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown:
    """One picture on the page.

    Attributes:
        source: the thumbnail as a data URL; empty if the picture cannot be decoded.
        name: name of the picture.
        certain: probability of the predicted class, as text.
        second: the second most likely class with its probability.
        meant: the class of its folder, if different from the predicted one.
    """

    source: str
    name: str
    certain: str
    second: str
    meant: str = ""

    @property
    def pieces(self) -> list[str]:
        """The name, split where a line may be broken."""
        return re.split(r"(?<=[/_\- ])|(?=\.)", self.name)


@dataclass(frozen=True)
class Section:
    """One predicted class.

    Attributes:
        name: name of the class.
        count: number of pictures predicted to be in the class.
        right: number of these in the class's folder; None if the folders are not classes.
        meant: number of all pictures in the class's folder.
        examples: thumbnails of its labelled pictures, as data URLs.
        shown: its pictures on the page, least certain first.
    """

    name: str
    count: int
    right: int | None
    meant: int | None
    examples: Sequence[str]
    shown: Sequence[Shown]


def contact_sheet(sheet: Sheet, progress: Progress = quiet) -> str:
    """Render the page as self-contained HTML.

    Args:
        sheet: the content, with at least one picture and two classes.
    """
    confidence = sheet.probabilities.max(axis=1)
    labels = sheet.probabilities.argmax(axis=1)
    each = max(1, SHOWN // len(sheet.classes))
    members = [np.flatnonzero(labels == place) for place in range(len(sheet.classes))]
    chosen = [rows[np.argsort(confidence[rows], kind="stable")][:each].tolist() for rows in members]
    examples = [list(sheet.examples.get(name, ()))[:EXAMPLES] for name in sheet.classes]
    files = [sheet.files[row] for rows in chosen for row in rows] + [file for part in examples for file in part]
    pictures = dict(zip(files, _thumbnails(files, progress), strict=True))
    sections = [
        Section(
            name,
            len(rows),
            None if sheet.truth is None else sum(sheet.truth[row] == name for row in rows.tolist()),
            None if sheet.truth is None else sum(truth == name for truth in sheet.truth),
            [pictures[file] for file in known if pictures[file]],
            [_shown(sheet, row, pictures[sheet.files[row]]) for row in first],
        )
        for name, rows, first, known in zip(sheet.classes, members, chosen, examples, strict=True)
    ]
    return (
        environment()
        .get_template("contact_sheet.html")
        .render(
            found=sheet,
            sections=sections,
            side=SIDE,
            right=None if sheet.truth is None else sum(section.right or 0 for section in sections),
            percent=_percent,
        )
    )


def _shown(sheet: Sheet, row: int, source: str) -> Shown:
    chances = sheet.probabilities[row]
    first, second = np.argsort(-chances, kind="stable")[:2]  # ties go to the lowest class, as in predictions
    name = sheet.classes[first]
    meant = "" if sheet.truth is None or sheet.truth[row] == name else sheet.truth[row]
    next_likely = f"{sheet.classes[second]} {_percent(float(chances[second]))}"
    return Shown(source, sheet.names[row], _percent(float(chances[first])), next_likely, meant)


def _percent(share: float) -> str:
    """Return a share in percent with one decimal, because probabilities are small for many classes."""
    return f"{100 * share:.1f} %"


def _thumbnails(files: Sequence[str], progress: Progress) -> list[str]:
    """Return data URLs of JPEG thumbnails, cropped to the central square; empty if a picture cannot be decoded."""
    pictures = EncodedPictures(files, lambda index: read_bytes(files[index]), SIDE, "crop", upright=True)

    def thumbnail(index: int) -> str:
        try:
            pixels = pictures.decoded(index, pictures.stored(index))
        except ValueError:  # the file has changed since it was encoded
            return ""
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=80)
        return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"

    made = []
    with progress.track("making thumbnails", len(files)) as advance:
        for _, source in on_each_core(thumbnail, range(len(files))):
            made.append(source)
            advance()
    return made
