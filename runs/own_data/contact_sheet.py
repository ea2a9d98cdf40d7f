"""The page about classified pictures: thumbnails by predicted class, the least certain first."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from PIL import Image

from clustering.foundation.cores import on_each_core
from clustering.foundation.progress import Progress
from fsl.benchmarks.encoded import EncodedPictures, read_bytes
from runs.own_data.page import Page

if TYPE_CHECKING:
    from runs.own_data.classification import Classified

SIDE = 96  # side of a thumbnail in pixels
SHOWN = 2000  # maximum number of thumbnails of about 4 kB each, to limit the size of the page
EXAMPLES = 8  # labelled pictures shown per class


class Shown(NamedTuple):
    """One picture on the page.

    Attributes:
        source: the thumbnail as a data URL; empty if the picture cannot be decoded, or only its features are given.
        pieces: its name, split where a line may be broken.
        certain: probability of the predicted class, as text.
        second: the second most likely class with its probability.
        meant: the class of its folder, if different from the predicted one.
    """

    source: str
    pieces: Sequence[str]
    certain: str
    second: str
    meant: str


class Section(NamedTuple):
    """One predicted class.

    Attributes:
        name: name of the class.
        number: number of pictures predicted to be in the class.
        right: number of these in the class's folder; 0 if the folders are not classes.
        meant: number of all pictures in the class's folder; 0 likewise.
        examples: thumbnails of its labelled pictures, as data URLs.
        shown: its pictures on the page, least certain first.
    """

    name: str
    number: int
    right: int
    meant: int
    examples: Sequence[str]
    shown: Sequence[Shown]


@dataclass(frozen=True, eq=False, kw_only=True)
class ContactSheet(Page):
    """The page about at least one classified picture.

    Attributes:
        title: title of the page.
        result: the classified pictures.
        said: explanations for the reader.
        progress: shows progress.
    """

    template: ClassVar[str] = "contact_sheet.html"

    title: str
    result: "Classified"
    said: Sequence[str]
    progress: Progress

    def content(self) -> dict[str, Any]:
        result, probabilities, files = self.result, self.result.probabilities, self.result.query.files
        labels, truth = np.array(result.labels), result.truth
        right = np.zeros(len(labels), dtype=bool) if truth is None else labels == np.array(truth)
        order = np.argsort(probabilities.max(axis=1), kind="stable")
        each = max(1, SHOWN // len(result.classes))
        first = {name: order[labels[order] == name][:each].tolist() for name in result.classes}
        examples = {name: result.support.get(name, [])[:EXAMPLES] for name in result.classes}
        pictured = result.config.query is not None
        shown = [files[row] for rows in first.values() for row in rows] if pictured else []
        shown += [file for part in examples.values() for file in part]
        thumbnails = dict(zip(shown, _thumbnails(shown, self.progress), strict=True))
        sections = [
            Section(
                name,
                int((labels == name).sum()),
                int(right[labels == name].sum()),
                truth.count(name) if truth else 0,
                [thumbnails[file] for file in examples[name] if thumbnails[file]],
                [self._shown(row, thumbnails.get(files[row], "")) for row in first[name]],
            )
            for name in result.classes
        ]
        return {
            "result": result,
            "evidence": _evidence(result),
            "files": files,
            "sections": sections,
            "right": None if truth is None else int(right.sum()),
            "percent": _percent,
        }

    def _shown(self, row: int, source: str) -> Shown:
        result, chances = self.result, self.result.probabilities[row]
        first, second = np.argsort(-chances, kind="stable")[:2]  # ties go to the lowest class, as in predictions
        name, truth = result.classes[first], result.truth
        return Shown(
            source,
            re.split(r"(?<=[/_\- ])|(?=\.)", result.names[row]),
            _percent(float(chances[first])),
            f"{result.classes[second]} {_percent(float(chances[second]))}",
            "" if truth is None or truth[row] == name else truth[row],
        )


def _evidence(result: "Classified") -> str:
    """Return what the pictures were classified by."""
    shots = "a few labelled pictures"
    if result.classifier.text_ is None:
        return f"{shots} of each"
    return f"the class names and {shots}" if len(result.classifier.support_) else "the class names alone"


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

    made: list[str] = []
    if not files:
        return made
    with progress.track("making thumbnails", len(files)) as advance:
        for _, source in on_each_core(thumbnail, range(len(files))):
            made.append(source)
            advance()
    return made
