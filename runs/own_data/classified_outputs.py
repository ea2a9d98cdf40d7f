"""Outputs for classified pictures: the predictions, a page, the classifier, and a run in the record."""

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
    from clustering.foundation.progress import Progress
    from runs.record.tracking import Tracker

COLUMNS = ("picture", "class", "confidence")


class Written(NamedTuple):
    """The output files for classified pictures."""

    rows: Path
    page: Path


def check_outputs(config: ClassifyConfig) -> None:
    """Check that the files can be written, and that only files of the same kind would be overwritten.

    Raises:
        InputError: a file cannot be written; the message names the key and the file.
    """
    if config.output is not None:
        rows = Path(config.output).expanduser()
        _check_place("output", rows, ".csv")
        if rows.exists() and not head_of(rows).startswith(",".join(COLUMNS).encode()):
            raise InputError(f"output={rows}: exists, and does not contain predictions; give another name")
        page = rows.with_suffix(".html")
        _check_place("output", page, ".html")
        if page.exists() and PAGE_MARK not in head_of(page):
            raise InputError(
                f"output={rows}: its page would overwrite {page}, which is another file; give another name"
            )
    if config.save is not None:
        place = Path(config.save).expanduser()
        _check_place("save", place, ".safetensors")
        try:
            check_replaceable(place)
        except InputError as error:
            raise InputError(f"save={error}") from None


def write_outputs(result: Classified, store: Store, command: str, progress: "Progress") -> Written:
    """Write the predictions, the page and optionally the classifier: all of them, or none.

    Args:
        result: the classified pictures.
        store: the store, for the default folder.
        command: the command line.
        progress: shows progress.

    Raises:
        InputError: the disk is full or not writable.
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
    """Return the predictions as CSV, with one line per picture.

    A line has the name, the class, the confidence, and the probability of each class; only the name for a picture that
    could not be read. Names are escaped so that spreadsheets do not read them as formulas: `=1.png` becomes
    `./=1.png`, and the class `=1` becomes `'=1`.
    """
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
    """Return sentences that explain how the pictures were classified."""
    classifier, strategy = result.classifier, result.classifier.strategy_
    name = short(result.config.strategy)
    if strategy.transductive and result.config.by_itself:
        refined = f" and of {classifier.refined_by_:,} earlier pictures" if classifier.refined_by_ else ""
        lines = [
            "Each picture was classified independently, by the nearest prototype: the mean of the labelled pictures of "
            f"a class{refined}. With alone=false, {name} classifies them jointly, with the saved support."
        ]
    else:
        lines = [said_of(strategy)]
    if strategy.transform == "CL2N":
        lines.append(
            "The transform CL2N subtracts the mean of the labelled classes from the features, because the mean of the "
            "network's training classes is unknown."
        )
    return lines


def record(result: Classified, written: Written, store: Store, tracker: "Tracker", seconds: float) -> tuple[str, bool]:
    """Record the result as a run, unless a run with its identity exists; return its id, and whether it existed."""
    config = result.config
    experiment = f"{STAGE}/{_name(config)}"
    name = f"{short(config.strategy)} {len(result.classes)} classes {Path(result.classifier.backbone or '').name}"
    with store.lock(STAGE, result.identity, "this classification", tracker.say):
        earlier = tracker.find(experiment, result.identity)
        if earlier is not None:
            return str(earlier.info.run_id), True
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
    """Escape bytes of file names that are not UTF-8: caf\\udce9.png."""
    return text.encode("utf-8", "backslashreplace").decode()


def _check_place(key: str, place: Path, ending: str) -> None:
    if place.suffix != ending:
        raise InputError(f"{key}={place}: the output is a {ending} file; use that ending")
    if not place.absolute().parent.is_dir():
        raise InputError(f"{key}={place}: its folder does not exist; create it, or give another path")
    if place.is_symlink():
        raise InputError(f"{key}={place} is a link, which the file would replace; give the path it points to")
    if place.exists() and not place.is_file():
        raise InputError(f"{key}={place} is not a file; give another path")
    try:
        with tempfile.TemporaryFile(dir=place.absolute().parent):
            pass
    except OSError as error:
        raise InputError(f"{key}={place}: its folder is not writable ({error.strerror}); give another path") from error


def _places(result: Classified, store: Store) -> Written:
    if result.config.output is not None:
        rows = Path(result.config.output).expanduser()
        return Written(rows, rows.with_suffix(".html"))
    stem = f"{_name(result.config)}-{short(result.config.strategy)}-{result.identity[:6]}"
    return Written(store.root / "classified" / f"{stem}.csv", store.root / "classified" / f"{stem}.html")


def _name(config: ClassifyConfig) -> str:
    """Return a name for the result: that of the support folder, or of the classifier's file."""
    return (
        Path(config.support or "").expanduser().resolve().name if config.support else Path(config.classifier or "").stem
    )
