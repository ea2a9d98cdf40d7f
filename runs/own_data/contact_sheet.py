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
from fsl.benchmarks.encoded import EncodedPictures, read_bytes
from fsl.progress import Progress, quiet
from runs.report.rendering import environment

SIDE = 96  # of a thumbnail in pixels
SHOWN = 2000  # thumbnails at most, so that the page opens: some 4 kB each
EXAMPLES = 8  # labelled pictures of a class


@dataclass(frozen=True)
class Sheet:
    """What there is to show.

    Attributes:
        title: what the pictures are called.
        files, names: where the N labelled pictures are, and what they are called.
        classes: K names.
        probabilities: (N, K).
        examples: files of labelled pictures by class.
        truth: what the pictures' folders call them; None where they do not.
        said: what a reader should know, a sentence or two each.
        warnings: likewise, what may be wrong.
        broken: what is wrong with the pictures that are not shown.
        method, command, facts: how it was made.
        rows: name of the file of all probabilities.
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
        source: the thumbnail as a data: address; empty where it cannot be decoded.
        name: of the picture.
        certain: probability of its class, as text.
        second: the next likely class with its probability.
        meant: the class of its folder, where that is another.
    """

    source: str
    name: str
    certain: str
    second: str
    meant: str = ""

    @property
    def pieces(self) -> list[str]:
        """The name, cut where a line may end."""
        return re.split(r"(?<=[/_\- ])|(?=\.)", self.name)


@dataclass(frozen=True)
class Section:
    """One predicted class.

    Attributes:
        name: of the class.
        count: pictures that were put into it.
        right: how many of these are in a folder called like it; None where the folders are no classes.
        meant: how many of all are.
        examples: thumbnails of its labelled pictures, as data: addresses.
        shown: its pictures on the page, the least certain first.
    """

    name: str
    count: int
    right: int | None
    meant: int | None
    examples: Sequence[str]
    shown: Sequence[Shown]


def contact_sheet(sheet: Sheet, progress: Progress = quiet) -> str:
    """The page, in HTML that asks nothing of any other file or host.

    Args:
        sheet: at least one picture and two classes.
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
    first, second = np.argsort(-chances, kind="stable")[:2]  # of equal ones the lowest, as everywhere
    name = sheet.classes[first]
    meant = "" if sheet.truth is None or sheet.truth[row] == name else sheet.truth[row]
    next_likely = f"{sheet.classes[second]} {_percent(float(chances[second]))}"
    return Shown(source, sheet.names[row], _percent(float(chances[first])), next_likely, meant)


def _percent(share: float) -> str:
    """With one decimal, since of many classes each has little."""
    return f"{100 * share:.1f} %"


def _thumbnails(files: Sequence[str], progress: Progress) -> list[str]:
    """data: addresses of JPEG squares, the middle of each picture; empty where a picture cannot be decoded."""
    pictures = EncodedPictures(files, lambda index: read_bytes(files[index]), SIDE, "crop", upright=True)

    def thumbnail(index: int) -> str:
        try:
            pixels = pictures.decoded(index, pictures.stored(index))
        except ValueError:  # it was there a moment ago
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
