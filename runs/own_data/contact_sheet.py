"""The page about classified pictures: thumbnails by predicted class, the least certain first."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from clustering.foundation.cores import on_each_core
from clustering.foundation.progress import Progress
from fsl.benchmarks.encoded import EncodedPictures, read_bytes
from runs.own_data.page import data_url
from runs.report.sections import Item, Section, Shown, table_of

if TYPE_CHECKING:
    from runs.own_data.classification import Classified

SIDE = 96  # side of a thumbnail in pixels
SHOWN = 2000  # maximum number of thumbnails of about 4 kB each, to limit the size of the page
EXAMPLES = 8  # labelled pictures shown per class


def contact_sheet(result: "Classified", said: Sequence[str], progress: Progress) -> dict[str, Any]:
    """Return title, introduction, warnings and sections of the page about at least one picture.

    Args:
        result: the classified pictures.
        said: explanations for the reader.
        progress: shows progress.
    """
    noun, files, classes, truth = result.noun, result.query.files, result.classes, result.truth
    labels, order = np.array(result.labels), np.argsort(result.probabilities.max(axis=1), kind="stable")
    each = max(1, SHOWN // len(classes))
    first = {name: order[labels[order] == name][:each].tolist() for name in classes}
    examples = {name: result.support.get(name, [])[:EXAMPLES] for name in classes}
    pictured = [files[row] for rows in first.values() for row in rows] if result.config.query is not None else []
    pictured += [file for part in examples.values() for file in part]
    thumbnails = dict(zip(pictured, _thumbnails(pictured, progress), strict=True))
    title = f"{noun.capitalize()}s in {Path(result.source).expanduser().resolve().name}, by class"
    intro = [
        f"{len(files):,} {noun}{'' if len(files) == 1 else 's'}, classified into {len(classes)} classes from "
        f"{_evidence(result)}. Within a class, those with the lowest confidence come first: check these.",
        f"Each {noun} has the probability of the predicted class, the second most likely class, and its name. If all "
        f"{len(classes)} classes were equally likely, each would have {_percent(1 / len(classes))}. The probabilities "
        "rank by confidence, but are not calibrated.",
        *said,
    ]
    if truth is not None:
        right = sum(label == true for label, true in zip(result.labels, truth, strict=True))
        intro.insert(
            1,
            f"Their folders have the names of classes: compared with these, {_percent(right / len(files))} ({right:,}) "
            "of the predictions are correct. The folder names were not used for the predictions.",
        )
    table = table_of(*class_counts(result))
    sections = [Section("The classes", tables=[table])]
    for name in classes:
        count = int((labels == name).sum())
        gallery = [_shown(result, row, thumbnails.get(files[row], "")) for row in first[name]]
        more = [f"{count - len(gallery):,} more with higher confidence are not shown."] if count > len(gallery) else []
        found = [source for file in examples[name] if (source := thumbnails[file])]
        heading = f"{name}: {count:,} {noun}{'' if count == 1 else 's'}"
        sections.append(Section(heading, more, examples=found, gallery=gallery))
    if result.broken:
        sections.append(Section("Not read", items=[*map(Item, result.broken)]))
    return {"title": title, "introduction": intro, "warnings": result.warnings, "sections": sections}


def class_counts(result: "Classified") -> tuple[list[str], list[list[str]]]:
    """Return a table of the classes: labelled and predicted pictures, of these the correct ones, and those in its
    folder; without the columns that are unknown."""
    truth, labelled = result.truth, len(result.classifier.support_) > 0
    headings = ["class", *(["labelled"] if labelled else []), "predicted"]
    headings += [*(["correct", "in its folder"] if truth else []), "confidence"]
    rows = []
    for place, name in enumerate(result.classes):
        own = [row for row, label in enumerate(result.labels) if label == name]
        counts = [int((result.classifier.support_labels_ == place).sum())] if labelled else []
        counts.append(len(own))
        if truth:
            counts += [sum(truth[row] == name for row in own), truth.count(name)]
        sure = f"{result.probabilities[own].max(axis=1).mean():.2f}" if own else ""
        rows.append([name, *(f"{count:,}" for count in counts), sure])
    return headings, rows


def _shown(result: "Classified", row: int, source: str) -> Shown:
    chances, truth = result.probabilities[row], result.truth
    first, second = np.argsort(-chances, kind="stable")[:2]  # ties go to the lowest class, as in predictions
    name = result.classes[first]
    meant = "" if truth is None or truth[row] == name else truth[row]
    then = f"{result.classes[second]} {_percent(float(chances[second]))}"
    return Shown(source, result.names[row], _percent(float(chances[first])), then, meant)


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
        return data_url(stream.getvalue(), "jpeg")

    made: list[str] = []
    if files:
        with progress.track("making thumbnails", len(files)) as advance:
            for _, source in on_each_core(thumbnail, range(len(files))):
                made.append(source)
                advance()
    return made
