"""The page about classified pictures: thumbnails by predicted class, the least certain first."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clustering.foundation.progress import Progress
from fsl.features.prompts import PROMPTS
from runs.own_data.classify import Classified
from runs.own_data.page import Page, Written, output_path, write_page
from runs.own_data.pictures import thumbnail_urls
from runs.report.sections import Item, Section, Shown, table_of
from runs.stages.lineage import short
from runs.storage.disk import write_text
from runs.storage.together import Output

if TYPE_CHECKING:
    from runs.cache import Store

SHOWN = 2000  # maximum number of thumbnails of about 4 kB each, to limit the size of the page


def write_classified(result: Classified, store: "Store", command: str, progress: Progress) -> Written:
    """Write the predictions, the page and optionally the classifier: all of them, or none.

    Args:
        result: at least one classified picture.
        store: the store, for the default folder.
        command: the command line.
        progress: shows progress.

    Raises:
        InputError: the disk is full or not writable.
    """
    config, classifier = result.config, result.classifier
    folder = Path(config.query or "").expanduser().resolve().name
    prompts = classifier.prompts or (PROMPTS if config.classes is not None else ())
    page = Page(
        title=f"Pictures in {folder}, by class",
        introduction=_introduction(result),
        warnings=result.warnings,
        sections=_sections(result, progress),
        facts={
            "network": f"{classifier.backbone} ({classifier.encoder_fingerprint_})",
            "prompts": " ".join(prompts) or "none",
            "identity": result.key,
            "transform": classifier.strategy_.transform,
        },
    )
    rows = output_path(config.output, store, "classified", folder, short(config.strategy), result.key[:6])
    save = [] if config.save is None else [Output(Path(config.save).expanduser(), "save=FILE", classifier.save)]
    return write_page(page, config.strategy, command, rows, lambda path: write_text(path, result.predictions()), *save)


def _introduction(result: Classified) -> list[str]:
    count, classes = len(result.rows), len(result.classes)
    shots = "a few labelled pictures"
    evidence = f"{shots} of each"
    if result.classifier.text_ is not None:
        evidence = f"the class names and {shots}" if len(result.classifier.support_) else "the class names alone"
    lines = [
        f"{_pictures(count)}, classified into {classes} classes from {evidence}. Of each class, the least certain come "
        "first: check these."
    ]
    if result.accuracy is not None:
        lines.append(
            f"Their folders have the names of classes: compared with these, {100 * result.accuracy:.1f} % "
            f"({round(result.accuracy * count):,}) of the predictions are correct. The folder names were not used for "
            "the predictions."
        )
    return [
        *lines,
        "Each picture has the second most likely class, and its name. The table has the probabilities of all classes; "
        "they order pictures by certainty, but are not calibrated.",
        *result.statements(),
    ]


def _sections(result: Classified, progress: Progress) -> list[Section]:
    files, rows = result.query.files, result.rows.sort_values("probability", kind="stable")
    first = rows.groupby("class").head(max(1, SHOWN // len(result.classes)))
    urls = thumbnail_urls([files[row] for row in first.index], progress)
    sections = [Section("The classes", tables=[table_of(result.class_counts())])]
    for name in result.classes:
        shown, count = first[first["class"] == name], int((rows["class"] == name).sum())
        more = [f"{count - len(shown):,} more that are more certain are not shown."] if count > len(shown) else []
        gallery = [_shown(result, row, urls[files[row]]) for row in shown.index]
        sections.append(Section(f"{name}: {_pictures(count)}", more, gallery=gallery))
    return sections + ([Section("Not read", items=[*map(Item, result.broken)])] if result.broken else [])


def _shown(result: Classified, row: Any, url: str) -> Shown:
    chances, about = result.probabilities[row], result.rows.loc[row]
    second = np.argsort(-chances, kind="stable")[1]  # ties go to the lowest class, as in predictions
    meant = about.get("truth", about["class"])
    return Shown(url, about["picture"], "", result.classes[second], "" if meant == about["class"] else meant)


def _pictures(count: int) -> str:
    return f"{count:,} picture{'' if count == 1 else 's'}"
