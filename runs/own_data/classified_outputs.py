"""What a person gets for classified pictures: predictions, a page, the classifier, and a run in the record."""

import csv
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clustering.files.regular import head_of
from clustering.files.spreadsheets import as_text
from clustering.foundation.errors import InputError
from fsl.classifier_files import check_replaceable
from fsl.named_strategies import said_of
from runs.config.classify import ClassifyConfig
from runs.config.groups import comment
from runs.config.overrides import spell
from runs.own_data.classification import STAGE, Classified
from runs.own_data.table_outputs import PAGE_MARK
from runs.stages.lineage import short
from runs.storage.store import Store, write_text
from runs.storage.together import Output, write_together

if TYPE_CHECKING:
    from fsl.progress import Progress
    from runs.record.tracking import Tracker

COLUMNS = ("picture", "class", "confidence")


class Written(NamedTuple):
    """The files about classified pictures."""

    rows: Path
    page: Path


def check_outputs(config: ClassifyConfig) -> None:
    """That the files can be written, and nothing is written over but an older one of the same kind.

    Raises:
        InputError: names the key and the file.
    """
    if config.output is not None:
        rows = Path(config.output).expanduser()
        _check_place("output", rows, ".csv")
        if rows.exists() and not head_of(rows).startswith(",".join(COLUMNS).encode()):
            raise InputError(f"output={rows}: is there already and holds no predictions; give another name")
        page = rows.with_suffix(".html")
        _check_place("output", page, ".html")
        if page.exists() and PAGE_MARK not in head_of(page):
            raise InputError(
                f"output={rows}: its page would take the place of {page}, which is another; give another name"
            )
    if config.save is not None:
        place = Path(config.save).expanduser()
        _check_place("save", place, ".safetensors")
        try:
            check_replaceable(place)
        except InputError as error:
            raise InputError(f"save={error}") from None


def write_outputs(result: Classified, store: Store, command: str, progress: "Progress") -> Written:
    """Write the predictions, the page and, where asked for, the classifier: all of them, or none.

    Args:
        command: what was typed.

    Raises:
        InputError: a disk that is full, or cannot be written to.
    """
    from runs.own_data.contact_sheet import Sheet, contact_sheet

    config, strategy = result.config, result.classifier.strategy_
    about = comment("strategy", config.strategy.name).rstrip(".")
    written = _places(result, store)
    page = contact_sheet(
        Sheet(
            title=Path(config.query or "").expanduser().resolve().name,
            files=result.query.files,
            names=result.names,
            classes=result.classes,
            probabilities=result.probabilities,
            examples=result.support,
            truth=result.truth,
            said=said(result),
            warnings=result.warnings,
            broken=result.broken,
            method=f"{short(config.strategy)}, {about}" if about else short(config.strategy),
            command=command,
            rows=written.rows.name,
            facts={
                "network": f"{result.classifier.backbone} ({result.classifier.encoder_fingerprint_})",
                "labelled pictures": f"{len(result.classifier.support_):,}",
                "identity": result.identity,
                "settings": spell(config.strategy.options),
                "transform": strategy.transform,
            },
        ),
        progress,
    )
    with store.watched():
        written.rows.parent.mkdir(parents=True, exist_ok=True)
    key = "results=FOLDER" if config.output is None else "--output FILE"
    outputs = [
        Output(written.rows, key, lambda path: write_text(path, predictions(result))),
        Output(written.page, key, lambda path: write_text(path, _writable(page))),
    ]
    if config.save is not None:
        outputs.append(Output(Path(config.save).expanduser(), "--save FILE", result.classifier.save))
    write_together(outputs)
    return written


def predictions(result: Classified) -> str:
    """A line for each picture, in CSV: its class, the probability of that, and of every class. Of one that could not be
    read only its name. No name is a formula to a spreadsheet: `=1.png` is written as `./=1.png`, a class as `'=1`."""
    stream = io.StringIO()
    lines = csv.writer(stream, lineterminator="\n")
    lines.writerow([*COLUMNS, *(f"p({name})" for name in result.classes)])
    rows = dict(zip(result.query.kept.tolist(), zip(result.labels, result.probabilities, strict=True), strict=True))
    for place, name in enumerate(as_text(name, "./") for name in result.all_names):
        if place not in rows:
            lines.writerow([name, *[""] * (2 + len(result.classes))])
            continue
        label, chances = rows[place]
        lines.writerow([name, as_text(label), f"{chances.max():.6f}", *(f"{chance:.6f}" for chance in chances)])
    return _writable(stream.getvalue())


def said(result: Classified) -> list[str]:
    """How the pictures got their classes, in words: a sentence or two each."""
    classifier, strategy = result.classifier, result.classifier.strategy_
    name = short(result.config.strategy)
    if strategy.transductive and result.config.by_itself:
        seen = f" and of {classifier.refined_by_:,} pictures that it labelled" if classifier.refined_by_ else ""
        lines = [
            "Each picture was labelled by itself, by the nearest prototype: the mean of the labelled pictures of a "
            f"class{seen}. {name} would label them together, with the saved support: alone=false."
        ]
    else:
        lines = [said_of(strategy)]
    if strategy.transform == "CL2N":
        lines.append(
            "A mean is subtracted from the features (transform CL2N): that of the labelled classes, since the mean of "
            "the classes that the network was trained on is not known."
        )
    return lines


def record(result: Classified, written: Written, store: Store, tracker: "Tracker", seconds: float) -> tuple[str, bool]:
    """Keep the result as a run, unless there is one of its identity; gives its id, and whether it was there."""
    config = result.config
    experiment = f"{STAGE}/{_name(config)}"
    name = f"{short(config.strategy)} {len(result.classes)} classes {Path(result.classifier.backbone or '').name}"
    with store.lock(STAGE, result.identity, "this classification", tracker.say):
        found = tracker.find(experiment, result.identity)
        if found is not None:
            return str(found.info.run_id), True
        tracker.bury(experiment, result.identity)
        tags = {
            "strategy": config.strategy.name,
            "encoder": result.classifier.encoder_fingerprint_,
            "pictures": len(result.query.files),
            "classes": len(result.classes),
        }
        run = tracker.start(
            experiment,
            name,
            stage=STAGE,
            identity=result.identity,
            params=config.flat(),
            config=config.to_yaml(),
            tags=tags,
        )
        with run.guarded():
            run.text("predictions.csv", predictions(result))
            run.artifact(written.page)
            accuracy = {} if result.accuracy is None else {"accuracy": result.accuracy}
            confidence = float(result.probabilities.max(axis=1).mean())
            run.log(metrics={**accuracy, "confidence": confidence, "seconds": seconds})
            run.finish()
    return run.run_id, False


def _writable(text: str) -> str:
    """With bytes of files' names that are no UTF-8 spelt out: caf\\udce9.png."""
    return text.encode("utf-8", "backslashreplace").decode()


def _check_place(key: str, place: Path, ending: str) -> None:
    if place.suffix != ending:
        raise InputError(f"{key}={place}: what is written is a {ending} file; give it that ending")
    if not place.absolute().parent.is_dir():
        raise InputError(f"{key}={place}: its folder does not exist; make it, or give another place")
    if place.is_symlink():
        raise InputError(f"{key}={place} is a link, and the file would take its place; give what it leads to")
    if place.exists() and not place.is_file():
        raise InputError(f"{key}={place} is no file; give another place")
    try:
        with tempfile.TemporaryFile(dir=place.absolute().parent):
            pass
    except OSError as error:
        raise InputError(
            f"{key}={place}: its folder cannot be written to ({error.strerror}); give another place"
        ) from error


def _places(result: Classified, store: Store) -> Written:
    if result.config.output is not None:
        rows = Path(result.config.output).expanduser()
        return Written(rows, rows.with_suffix(".html"))
    stem = f"{_name(result.config)}-{short(result.config.strategy)}-{result.identity[:6]}"
    return Written(store.root / "classified" / f"{stem}.csv", store.root / "classified" / f"{stem}.html")


def _name(config: ClassifyConfig) -> str:
    """What the pictures are called: the folder of the labelled ones, or the file of the classifier."""
    return (
        Path(config.support or "").expanduser().resolve().name if config.support else Path(config.classifier or "").stem
    )
