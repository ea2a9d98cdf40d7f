"""Outputs for a user's own pictures: their classes, with a page and a run in the record, or their clusters."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clustering.files.regular import head_of
from clustering.foundation.errors import InputError
from runs.cache import Store
from runs.config.cluster import ClusterConfig
from runs.config.overrides import spell
from runs.own_data.classify_config import ClassifyConfig
from runs.own_data.table_checks import check_page
from runs.stages.lineage import short
from runs.stages.stage import set_values
from runs.storage.disk import write_text
from runs.storage.together import Output, check_place

if TYPE_CHECKING:
    from clustering.foundation.progress import Progress
    from runs.console.output import Console
    from runs.own_data.classification import Classified
    from runs.own_data.page import Command, Written
    from runs.stages.clustering.results import Clustered
    from runs.track import Tracker

FOLDER = "folder"  # the data set of `transduce cluster`
CLUSTERS = ("file", "cluster", "confidence")
CLASSES = ("picture", "class", "confidence")


def is_folder(config: ClusterConfig) -> bool:
    """Return whether the config clusters a folder of a user's own pictures."""
    return config.dataset.plugin == FOLDER


def check_clusters_file(config: ClusterConfig) -> None:
    """Check before clustering that the clusters can be written.

    Raises:
        InputError: the output cannot be written, or would overwrite another file.
    """
    if config.output is not None:
        _check_rows(Path(config.output), CLUSTERS, "clusters")


def check_outputs(config: ClassifyConfig) -> None:
    """Check that the files can be written, and that only files of the same kind would be overwritten.

    Raises:
        InputError: a file cannot be written; the message names the key and the file.
    """
    if config.output is not None:
        rows = Path(config.output).expanduser()
        _check_rows(rows, CLASSES, "predictions")
        page = rows.with_suffix(".html")
        check_place("output", page, ".html")
        check_page(page, str(rows))
    if config.save is not None:
        from fsl.classifier_files import check_replaceable

        place = Path(config.save).expanduser()
        check_place("save", place, ".safetensors")
        try:
            check_replaceable(place)
        except InputError as error:
            raise InputError(f"save={error}") from None


def write_clusters_file(result: "Clustered", store: Store) -> Path:
    """Write file, cluster and confidence of each picture. With given labels, clusters have the names of their classes,
    otherwise numbers.

    Args:
        result: the clustering.
        store: the store, for the default folder.
    """
    import pandas as pd

    from runs.own_data.page import as_utf8, csv_of
    from runs.stages.clustering.results import named_clusters
    from runs.stages.clustering.stage import points_of
    from runs.stages.clustering.trials import known_labels

    config, data, trials = result.config, points_of(result.config), result.trials
    labels = named_clusters(trials.labels[trials.chosen].astype(np.int64), known_labels(config, data)).tolist()
    confidence = np.full(len(labels), np.nan) if trials.confidence is None else trials.confidence
    columns = [as_utf8(name) for name in data.names], [as_utf8(str(label)) for label in labels], confidence
    frame = pd.DataFrame(dict(zip(CLUSTERS, columns, strict=True)))
    name = f"{FOLDER}-{short(config.method)}-{result.n_clusters}-{result.key[:6]}.csv"
    path = Path(config.output) if config.output else store.root / "clusters" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, csv_of(frame, 4))
    return path


def write_outputs(result: "Classified", store: Store, command: "Command", progress: "Progress") -> "Written":
    """Write the predictions, the page and optionally the classifier: all of them, or none.

    Args:
        result: the classified pictures.
        store: the store, for the default folder.
        command: the command line.
        progress: shows progress.

    Raises:
        InputError: the disk is full or not writable.
    """
    from fsl.features.prompts import PROMPTS
    from runs.own_data.contact_sheet import contact_sheet
    from runs.own_data.page import Page, method_name

    config, classifier = result.config, result.classifier
    name = f"{_name(config)}-{short(config.strategy)}-{result.key[:6]}.csv"
    rows = Path(config.output).expanduser() if config.output is not None else store.root / "classified" / name
    computed = config.classes is not None and config.text_features is None
    page = Page(
        **contact_sheet(result, said(result), progress),
        method=method_name(config.strategy),
        command=command,
        facts={
            "predictions": rows.name,
            "network": f"{classifier.backbone} ({classifier.encoder_fingerprint_})" if classifier.backbone else "none",
            "prompts": " ".join(classifier.prompts or (PROMPTS if computed else ())) or "none",
            "identity": result.key,
            "settings": spell(config.strategy.options),
            "transform": classifier.strategy_.transform,
        },
    )
    save = [] if config.save is None else [Output(Path(config.save).expanduser(), "save=FILE", classifier.save)]
    return page.write(rows, lambda path: write_text(path, predictions(result)), store, *save)


def predictions(result: "Classified") -> str:
    """Return the predictions as CSV, with one line per picture.

    A line has the name, the class, the confidence, and the probability of each class; only the name for a picture that
    could not be read.
    """
    import pandas as pd

    from runs.own_data.page import as_utf8, csv_of

    kept = result.query.kept
    frame = pd.DataFrame({"picture": [*map(as_utf8, result.all_names)], "class": None, "confidence": np.nan})
    frame.loc[kept, "class"] = np.array([*map(as_utf8, result.labels)], dtype=object)
    frame.loc[kept, "confidence"] = result.probabilities.max(axis=1)
    chances = pd.DataFrame(result.probabilities, index=kept, columns=[as_utf8(f"p({name})") for name in result.classes])
    return csv_of(pd.concat([frame, chances], axis=1))


def said(result: "Classified") -> list[str]:
    """Return sentences that explain how the pictures were classified."""
    from fsl.named_strategies import statement_of

    classifier, strategy = result.classifier, result.classifier.strategy_
    name = short(result.config.strategy)
    named, shown = classifier.text_ is not None, classifier.prototypes_ is not None
    if strategy.transductive and result.config.by_itself:
        refined = f" and of {classifier.refined_by_:,} earlier pictures" if classifier.refined_by_ else ""
        by = "by the class names" if named else ""
        if shown:
            by += ", and " if by else ""
            by += f"by the nearest prototype: the mean of the labelled pictures of a class{refined}"
        saved = ", with the saved support" if len(classifier.support_) else ""
        lines = [
            f"Each picture was classified independently, {by}. With alone=false, {name} classifies them jointly{saved}."
        ]
    else:
        lines = [statement_of(strategy)]
    if strategy.transform == "CL2N":
        whose = "labelled classes" if len(set(classifier.support_labels_)) == len(result.classes) else "pictures"
        lines.append(
            f"The transform CL2N subtracts the mean of the {whose} from the features, because the mean of the "
            "network's training classes is unknown."
        )
    return lines


def record(
    result: "Classified", written: "Written", store: Store, tracker: "Tracker", seconds: float
) -> tuple[str, bool]:
    """Record the result as a run, unless a run with its key exists; return its id, and whether it existed."""
    from runs.own_data.classification import STAGE

    config = result.config
    experiment = f"{STAGE}/{_name(config)}"
    network = Path(result.classifier.backbone or "features").name
    name = f"{short(config.strategy)} {len(result.classes)} classes {network}"
    with store.lock(STAGE, result.key, "this classification", tracker.say):
        earlier = tracker.find(result.key)
        if earlier is not None:
            return str(earlier.info.run_id), True
        tags = {
            "strategy": config.strategy.name,
            "encoder": result.classifier.encoder_fingerprint_,
            "pictures": len(result.query.files),
            "classes": len(result.classes),
        }
        run = tracker.unfinished(experiment, [result.key]).get(result.key) or tracker.start(
            experiment,
            name,
            stage=STAGE,
            key=result.key,
            params=set_values(config),
            flat=config.flat(),
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


def _check_rows(rows: Path, columns: Sequence[str], what: str) -> None:
    """Check that a CSV file can be written, and that it replaces only one with these columns."""
    check_place("output", rows, ".csv")
    if rows.exists() and not head_of(rows).startswith(",".join(columns).encode()):
        raise InputError(f"output={rows}: exists, and does not contain {what}; give another name, or move it")


def _name(config: ClassifyConfig) -> str:
    """Return a name for the result: that of the support folder, of the classifier's file, or of the queries."""
    if config.support:
        return Path(config.support).expanduser().resolve().name
    if config.classifier:
        return Path(config.classifier).stem
    return Path(config.query).expanduser().resolve().name if config.query else Path(config.query_features or "").stem


def show(results: "Sequence[Classified]", console: "Console") -> None:
    """Show one result by class, or compare several strategies with the first."""
    from runs.own_data.contact_sheet import class_counts

    first = results[0]
    title = f"{len(first.names):,} {first.noun}{'' if len(first.names) == 1 else 's'} in {len(first.classes)} classes"
    if len(results) == 1:
        headings, cells = class_counts(first)
        if first.accuracy is not None:
            title += f"; {100 * first.accuracy:.1f} % agree with the class name of their folder"
        rows = [dict(zip(headings, row, strict=True)) for row in cells]
    else:
        title += ", by strategy"
        rows = [
            {
                "strategy": short(result.config.strategy),
                **{f"in {name}": f"{result.labels.count(name):,}" for name in first.classes},
                **({} if result.accuracy is None else {"correct": f"{100 * result.accuracy:.1f} %"}),
                "confidence": f"{float(result.probabilities.max(axis=1).mean()):.2f}",
                "same as first": f"{sum(map(str.__eq__, result.labels, first.labels)):,} of {len(first.labels):,}",
            }
            for result in results
        ]
    console.table(rows, title=title, right=list(rows[0])[1:])


def facts(result: "Classified") -> dict[str, Any]:
    """Return a result as a dictionary for JSON."""
    return {
        "config": result.config.as_json(),
        "pictures": len(result.names),
        "classes": list(result.classes),
        "predictions": dict(zip(result.names, result.labels, strict=True)),
        "accuracy": result.accuracy,
        "warnings": list(result.warnings),
        "broken": list(result.broken),
    }
