"""`transduce classify`: classify a user's own pictures, given a few labelled ones of each class, or class names."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags
from runs.config.classify import ClassifyConfig, without_shift
from runs.config.configs import parse
from runs.config.overrides import split
from runs.console.output import Console
from runs.stages.lineage import short

if TYPE_CHECKING:
    from runs.own_data.classification import Classified
    from runs.own_data.picture_features import Pictures

FLAGS = ("json",)
KEYS = (
    *("support", "query", "classes", "prompts", "backbone", "pretrained", "strategy", "classifier", "save", "output"),
    *("query_features", "text_features"),
)
DEFAULTS = {"strategy": "laplacianshot"}
ABOUT = """\
Classify the pictures of a folder from a few labelled examples, from class names, or both. `support` is a folder with
one subfolder of pictures for each class; `classes` are class names, a,b,c or a text file with one per line; `query` is
a folder of pictures to classify. The backbone is a network of timm (backbone=timm:NAME), a checkpoint of this project,
or, for class names, a network of open_clip (backbone=open_clip:NAME pretrained=TAG|FILE); it is not trained. Features
of your own replace the network: `query_features` of the pictures, `text_features` of the class names. The predictions,
with the probability of every class, are written as a CSV file and as a page of thumbnails, least certain first.
These keys may be written as flags, as in the examples: support, query, classes, prompts, backbone, pretrained,
strategy, classifier, save, output, query-features, text-features.

Several strategies (--strategy a,b,c) are compared side by side; each writes its own CSV file and page.

`shift` is false unless you set it, whatever the strategy's default, because your pictures may have other class
proportions than the support. A transductive strategy classifies all query pictures jointly, so the label of one picture
may depend on the others. A classifier saved with --save FILE classifies later pictures one by one (--classifier FILE):
by the nearest prototype, the mean of the support and the query pictures of each class at the time of saving. With
alone=false, the strategy classifies the new pictures jointly, with the saved support."""
EXAMPLES = (
    "--support labelled --query rest --backbone timm:vit_small_patch14_dinov2",
    "--support labelled --query rest --backbone best.safetensors --strategy slk_means weight=0.5",
    "--support labelled --query rest --backbone best.safetensors --strategy simpleshot,laplacianshot,tim_adm",
    "--support labelled --query rest --backbone timm:resnet50 pretrained=resnet50.pth broken=skip",
    "--query rest --classes cat,dog --backbone open_clip:ViT-B-32 --pretrained laion2b_s34b_b79k",
    "--query rest --classes names.txt --support labelled --backbone open_clip:ViT-B-32 --pretrained clip.safetensors",
    "--query-features pictures.parquet --text-features names.npy --classes names.txt",
    "--support labelled --query rest --backbone best.safetensors --save animals.safetensors",
    "--classifier animals.safetensors --query new",
)


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    configs = [without_shift(config, settings) for config in parse(ClassifyConfig, settings, DEFAULTS)]
    return write_usage("classify", ABOUT, ClassifyConfig, FLAGS, EXAMPLES, settings, configs=configs, defaults=DEFAULTS)


def run(flags: Flags, console: Console) -> int:
    """Classify the pictures, write the predictions, and show the number of pictures in each class."""
    configs = _configs(flags.settings)
    for config in configs:
        config.check_places()
    other = _other_strategy(configs[0], flags.settings)

    from runs.cli.session import Session
    from runs.own_data.classification import classify
    from runs.own_data.page import Command
    from runs.own_data.picture_outputs import check_outputs, record, said, write_outputs

    session = Session(configs, console)
    for config in configs:
        check_outputs(config)
    command = Command("classify", flags.settings)
    results, facts = [], []
    known: dict[tuple[str, ...], Pictures] = {}
    for config in configs:
        since = time.perf_counter()
        result = classify(config, session.store, console, other=other, known=known)
        written = write_outputs(result, session.store, command, console)
        run_id, reused = record(result, written, session.store, session.tracker, time.perf_counter() - since)
        for words in result.warnings:
            console.error(f"warning: {words}")
        shared = {"key": result.key, "run": run_id, "reused": reused}
        facts.append({**_facts(result), **shared, **written.record()})
        results.append(result)
        for words in said(result):
            console.note(words)
        console.note(f"predictions: {written.rows}")
        shown = "thumbnails" if config.query is not None else "rows"
        console.note(f"{shown} by class: {written.page.resolve().as_uri()}")
        if config.save is not None:
            console.note(f"classifier: {config.save}")
    if console.as_json:
        console.json(facts if len(facts) > 1 else facts[0])
    elif len(results) > 1:
        _compare(results, console)
    else:
        _show(results[0], console)
    session.close()
    return 0


def _configs(settings: Sequence[str]) -> list[ClassifyConfig]:
    """Read the settings as one config, or one for each strategy.

    Raises:
        InputError: another key or a field has several values, or several strategies would write to one file.
    """
    configs = [without_shift(config, settings) for config in parse(ClassifyConfig, settings, DEFAULTS)]
    first = configs[0]
    same_otherwise = all(config.replace(strategy=first.strategy) == first for config in configs)
    if not same_otherwise or len({config.strategy.name for config in configs}) < len(configs):
        raise InputError("classify accepts several strategies, but only one value of every other key")
    for name in ("save", "output"):
        if len(configs) > 1 and getattr(first, name) is not None:
            raise InputError(
                f"{name}= names one file, but there are {len(configs)} strategies; give one strategy, or omit {name}="
            )
    return configs


def _other_strategy(config: ClassifyConfig, settings: Sequence[str]) -> bool:
    """Return whether the settings name a strategy that replaces the one of a saved classifier.

    Raises:
        InputError: the settings give fields of a strategy for a saved classifier without naming a strategy.
    """
    if config.classifier is None:
        return False
    if any(split(setting)[0] == "strategy" for setting in settings):
        return True
    if config.strategy != _configs([])[0].strategy:
        raise InputError("a saved classifier already has its strategy's parameters; to change them, give strategy= too")
    return False


def _show(result: "Classified", console: Console) -> None:
    truth = result.truth
    by_name = not len(result.classifier.support_)
    rows = []
    for place, name in enumerate(result.classes):
        predicted = [row for row, label in enumerate(result.labels) if label == name]
        certain = [float(result.probabilities[row].max()) for row in predicted]
        right = {}
        if truth is not None:
            right["correct"] = f"{sum(truth[row] == name for row in predicted):,}"
            right["in its folder"] = f"{truth.count(name):,}"
        rows.append(
            {
                "class": name,
                **({} if by_name else {"labelled": f"{int((result.classifier.support_labels_ == place).sum()):,}"}),
                "predicted": f"{len(predicted):,}",
                **right,
                "confidence": f"{sum(certain) / len(certain):.2f}" if certain else "",
            }
        )
    title = (
        f"{len(result.names):,} {result.noun}{'' if len(result.names) == 1 else 's'} in {len(result.classes)} classes"
    )
    if result.accuracy is not None:
        title += f"; {100 * result.accuracy:.1f} % agree with the class name of their folder"
    console.table(rows, title=title, right=("labelled", "predicted", "correct", "in its folder", "confidence"))


def _compare(results: "Sequence[Classified]", console: Console) -> None:
    """Show for each strategy the number of pictures in each class, and the agreement with the first strategy."""
    first = results[0]
    rows = []
    for result in results:
        equal = sum(predicted == other for predicted, other in zip(result.labels, first.labels, strict=True))
        right = {} if result.accuracy is None else {"correct": f"{100 * result.accuracy:.1f} %"}
        rows.append(
            {
                "strategy": short(result.config.strategy),
                **{f"in {name}": f"{result.labels.count(name):,}" for name in first.classes},
                **right,
                "confidence": f"{float(result.probabilities.max(axis=1).mean()):.2f}",
                "same as first": f"{equal:,} of {len(first.labels):,}",
            }
        )
    title = f"{len(first.names):,} {first.noun}s in {len(first.classes)} classes, by strategy"
    console.table(rows, title=title, right=list(rows[0])[1:])


def _facts(result: "Classified") -> dict[str, Any]:
    return {
        "config": result.config.as_json(),
        "pictures": len(result.names),
        "classes": list(result.classes),
        "predictions": dict(zip(result.names, result.labels, strict=True)),
        "accuracy": result.accuracy,
        "warnings": list(result.warnings),
        "broken": list(result.broken),
    }
