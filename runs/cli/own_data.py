"""The verbs for one's own data: classify, label, next, data, import."""

import csv
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clustering.foundation.errors import InputError, unknown
from runs.cli.app import Json, NoBrowser, Settings, app, console, one, verb
from runs.cli.session import Session
from runs.config import groups
from runs.config.configs import TrainConfig, parse
from runs.config.overrides import split
from runs.labelling.label_config import LabelConfig, NextConfig
from runs.own_data.classify_config import ClassifyConfig, without_shift

if TYPE_CHECKING:
    from runs.own_data.picture_features import Pictures

THEN = {"benchmark": "data check benchmark", "dataset": "cluster dataset", "fair_dataset": "fair dataset"}
"""The beginning of the command that reads the files, by the group of the data."""
PLACES = {"root": "FOLDER", "path": "FILE"}  # keys that name the files of data
INCOMPLETE = 2


@verb("classify", schema=ClassifyConfig)
def classify(settings: Settings = None, json: Json = False) -> int:
    """Classify your own pictures, from a few labelled ones of each class or class names.

    The backbone is a network of timm, a checkpoint of this project, or, for class names, a network of open_clip; it is
    not trained. The predictions, with the probability of every class, are written as a CSV file and as a page of
    thumbnails, least certain first. Several strategies are compared. shift is false unless you set it, because your
    pictures may have other class proportions than the support. A transductive strategy classifies all pictures jointly;
    a classifier saved with --save classifies later pictures one by one, by the nearest prototype at the time of saving.

    Examples:
      transduce classify --support labelled --query rest --backbone timm:vit_small_patch14_dinov2
      transduce classify --support labelled --query rest --backbone best.safetensors --strategy simpleshot,tim_adm
      transduce classify --query rest --classes cat,dog --backbone open_clip:ViT-B-32 --pretrained laion2b_s34b_b79k
      transduce classify --query-features pictures.parquet --text-features names.npy --classes names.txt
      transduce classify --support labelled --query rest --backbone best.safetensors --save animals.safetensors
      transduce classify --classifier animals.safetensors --query new
    """
    words = settings or []
    configs = _of_pictures(words)
    from runs.own_data.classification import classify as classified
    from runs.own_data.page import Command
    from runs.own_data.picture_outputs import check_outputs, facts, record, said, show, write_outputs

    session = Session(configs, as_json=json)
    for config in configs:
        check_outputs(config)
    results, found, console = [], [], session.console
    other, known = _names_strategy(words), dict[tuple[str, ...], "Pictures"]()
    for config in configs:
        since = time.perf_counter()
        replaces = other and config.classifier is not None
        result = classified(config, session.store, console, other=replaces, known=known)
        written = write_outputs(result, session.store, Command("classify", tuple(words)), console)
        run_id, reused = record(result, written, session.store, session.tracker, time.perf_counter() - since)
        shared = {"key": result.key, "run": run_id, "reused": reused}
        found.append({**facts(result), **shared, **written.record()})
        results.append(result)
        for warning in result.warnings:
            console.error(f"warning: {warning}")
        items = "thumbnails" if config.query is not None else "rows"
        saved = [] if config.save is None else [f"classifier: {config.save}"]
        page = f"{items} by class: {written.page.resolve().as_uri()}"
        console.note("\n".join([*said(result), f"predictions: {written.rows}", page, *saved]))
    if json:
        console.json(found if len(found) > 1 else found[0])
    else:
        show(results, console)
    return session.close()


def _of_pictures(words: Sequence[str]) -> list[ClassifyConfig]:
    """Read the settings as one config, or one for each strategy, and check the files."""
    configs = [without_shift(config, words) for config in parse(ClassifyConfig, words)]
    first, names = configs[0], {config.strategy.name for config in configs}
    if len(names) < len(configs) or any(config.replace(strategy=first.strategy) != first for config in configs):
        raise InputError("classify accepts several strategies, but only one value of every other key")
    for name in ("save", "output"):
        if len(configs) > 1 and getattr(first, name) is not None:
            raise InputError(f"{name}= names one file, but there are several strategies; give one, or omit {name}=")
    (default,) = (without_shift(config, []) for config in parse(ClassifyConfig, []))
    if first.classifier is not None and first.strategy != default.strategy and not _names_strategy(words):
        raise InputError("a saved classifier already has its strategy's parameters; to change them, give strategy= too")
    for config in configs:
        config.check_places()
    return configs


def _names_strategy(words: Sequence[str]) -> bool:
    return any(split(word)[0] == "strategy" for word in words)


@verb("label", schema=LabelConfig, positional=("pile",))
def label(
    settings: Settings = None,
    finish: Annotated[bool, typer.Option("--finish", help="Record the session as a run, without the page.")] = False,
    no_browser: NoBrowser = False,
    json: Json = False,
) -> int:
    """Label a pile of pictures or rows on a page, from a few labels to all.

    The pile, named first, is a folder of pictures, a table with a column of features, or a file of features. The page
    shows a few items at a time, and one key gives a class. After each batch, the strategy labels the whole pile anew,
    and the page shows the predictions of each class, least certain first, their estimated accuracy, and the next items.

    The same command continues a session; several people can work on one page. Ctrl-C ends the page and records the
    session as a run. The page listens on this machine only, and its address contains a secret; with --host, other
    machines that know the address can read the pile and answer.

    Examples:
      transduce label pictures --backbone timm:vit_small_patch14_dinov2
      transduce label pictures --classes cat,dog --backbone open_clip:ViT-B-32 --pretrained laion2b_s34b_b79k
      transduce label table.parquet --features emb --show text,image --classes spam,ham
      transduce label pictures --backbone best.safetensors --finish
    """
    if json and not finish:
        raise InputError("--json writes the facts of a session that --finish records; add --finish, or omit it")
    config = _of_pile(LabelConfig, settings or [], "label", "a pile")
    from runs.labelling.opening import label as open_page

    place = Session([config], as_json=json)
    facts = open_page(config, place.store, place.tracker, place.console, finish=finish, browse=not no_browser)
    if json:
        place.console.json(facts)
    return place.close()


@verb("next", schema=NextConfig, positional=("pile", "labels"))
def next_items(
    settings: Settings = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write the result as CSV.")] = False,
    json: Json = False,
) -> int:
    """List the items of a pile to label next, without a page.

    The most important first, with the present prediction of each. The labels so far, named second, are a CSV file with
    a column id (the path of a picture in the folder, or the number of a row, from 0) and a column label, such as the
    export of transduce label. -n is the number of items.

    Examples:
      transduce next pictures labels.csv -n 20 --backbone timm:vit_small_patch14_dinov2
      transduce next table.parquet labels.csv --features emb --csv > next.csv
      transduce next features.npy --selection random
    """
    if json and as_csv:
        raise InputError("--json and --csv are both given; omit one of them")
    config = _of_pile(NextConfig, settings or [], "next", "a pile and labels")
    from runs.labelling.next_items import cells, next_rows

    said = console(as_json=json)
    rows, names = next_rows(config, said), ("id", "predicted", "probability")
    if as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([names, *(cells(row, "") for row in rows)])
    else:
        shown = [dict(zip(names, cells(row, "-"), strict=True)) for row in rows]
        said.show(rows, shown, right=("probability",))
    return 0


def _of_pile(schema: Any, words: Sequence[str], name: str, takes: str) -> Any:
    """Return the config of a verb that takes a pile of unlabelled items, and check its files."""
    _no_words(words, name, takes)
    config = one([without_shift(config, words) for config in parse(schema, words)], name)
    config.check_places()
    return config


def _no_words(words: Sequence[str], name: str, takes: str) -> None:
    if word := next((word for word in words if "=" not in word), ""):
        raise InputError(f"{word!r}: transduce {name} takes {takes}, and keys with =")


data = typer.Typer(rich_markup_mode=None, help="Check a benchmark's files, or show where to get them.")
app.add_typer(data, name="data")


@verb("data check", schema=TrainConfig, group=data)
def check(settings: Settings = None, json: Json = False) -> int:
    """Read every picture of a benchmark; the exit code is 2 if some are missing, superfluous or broken.

    Lists missing, superfluous and broken pictures, and those that occur in two splits, which are no error: some
    benchmarks were published with them. Prints a fingerprint of the pictures, which does not depend on the file format.

    Examples:
      transduce data check benchmark=mini root=FOLDER
      transduce data check benchmark=cub root=CUB_200_2011 --json
    """
    keys = settings or []
    _no_words(keys, "data check", "no words, but benchmark=NAME root=FOLDER")
    chosen = one(parse(TrainConfig, keys), "data check").benchmark
    known = ("benchmark", *chosen.options)
    if wrong := next((name for key in keys if (name := split(key)[0].removeprefix("benchmark.")) not in known), ""):
        raise unknown("key", wrong, known)
    from fsl.benchmarks.survey import survey
    from runs.cli.survey import as_json, show

    said = console(as_json=json)
    checked = survey(chosen.build(), said)
    if json:
        said.json(as_json(chosen.name, checked))
    else:
        show(checked, said)
    if checked.sound:
        return 0
    root = chosen.options.get("root")
    said.error(f"transduce: benchmark {chosen.name}: {root} is not complete and correct; see above")
    return INCOMPLETE


@verb("data where", group=data)
def where(name: Annotated[str, typer.Argument(metavar="NAME")], json: Json = False) -> int:
    """Show where to get the files of a benchmark or a data set, and which folder root= must name."""
    known = {option: group for group in reversed(THEN) for option in groups.names(group)}
    if name not in known and ":" not in name:
        raise unknown("data set", name, known)
    group = known.get(name, "benchmark")
    chosen, about = groups.option(group, name), {group: name, "about": groups.comment(group, name) or name}
    if hasattr(chosen.kind, "home"):
        about |= {"from": chosen.kind.home, "root": f"a folder with {chosen.kind.wanted}"}
    elif place := next((key for key in PLACES if key in chosen.options), None):
        about[place] = groups.comments(group, name).get(place, "")
    else:
        about["from"] = "it is made here, and needs no files"
    lines = [f"{key}: {about[key]}" for key in ("from", *PLACES) if about.get(key)]
    lines += [f"then: transduce {THEN[group]}={name} {key}={value}" for key, value in PLACES.items() if key in about]
    if json:
        console().json(about)
    else:
        console().write("\n".join([about["about"], *lines]))
    return 0


imports = typer.Typer(
    rich_markup_mode=None,
    help="Convert features and weights written by other programs. No code in a file is executed; a pickle that "
    "requires it is rejected.\n\nImporting is optional for single files: transduce evaluate also accepts "
    "checkpoint=FILE and features=FILE.",
)
app.add_typer(imports, name="import")
Output = Annotated[
    str | None, typer.Option(help="The file to write; default: the name of FILE with .safetensors, here.")
]


def _text(about: str) -> Any:
    return typer.Option(help=about)


@verb("import features", group=imports)
def features(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE|FOLDER")],
    split: Annotated[str, _text("The split of the images: base, validation or novel.")] = "novel",
    labels: Annotated[str | None, _text("File with one label per picture.")] = None,
    classes: Annotated[str | None, _text("File with the class names, one a line.")] = None,
    text_features: Annotated[str | None, _text("File with one row per class name.")] = None,
    logit_scale: Annotated[float | None, _text("Factor of the cosines of pictures and names.")] = None,
    column: Annotated[str | None, _text("Array or column of the features, or a pattern: emb_*.")] = None,
    label_column: Annotated[str | None, _text("Array or column of the labels.")] = None,
    text_column: Annotated[str | None, _text("Array or column of the text features.")] = None,
    prompt: Annotated[int | None, typer.Option(min=0, help="Number of a prompt, from 0, of text_by_prompt.")] = None,
    backbone: Annotated[str | None, _text("Of a FOLDER: timm:NAME, open_clip:NAME or FILE.")] = None,
    pretrained: Annotated[str | None, _text("Of a FOLDER: weights of the backbone.")] = None,
    prompts: Annotated[str | None, _text("Of a FOLDER: file of templates, such as a photo of a {}.")] = None,
    output: Output = None,
    json: Json = False,
) -> int:
    """Convert features that another program extracted to a feature bank.

    Reads the pickles of SimpleShot, S2M2 and PT-MAP, and .npy, .npz, .pt, .safetensors and .parquet files. An .npz,
    .pt or .safetensors has arrays features (N, D) and labels (N,), optionally class_names, text (K, D), logit_scale and
    base_mean. A .parquet has a column of lists, or columns of floats, and a column of labels. A FOLDER with one
    subfolder of pictures per class is encoded by a network.

    Examples:
      transduce import features features.npz split=validation output=validation.safetensors
      transduce import features clip.parquet column=embedding label_column=category
      transduce import features pictures --backbone open_clip:ViT-B-32 --pretrained laion2b_s34b_b79k
    """
    from runs.own_data.importing import import_features

    said = console(as_json=json)
    values = {name: value for name, value in ctx.params.items() if name not in ("file", "json")}
    return _say(import_features(file.expanduser(), values, said), json=json)


@verb("import checkpoint", group=imports)
def checkpoint(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    backbone: Annotated[str, _text("The network of the weights.")] = "conv4",
    benchmark: Annotated[str, _text("The benchmark it was trained on: sets size and channels.")] = "mini",
    output: Output = None,
    json: Json = False,
) -> int:
    """Convert the weights of another program to the parameter names of this project.

    Examples:
      transduce import checkpoint model_best.pth.tar --backbone conv4 --benchmark mini
    """
    from runs.own_data.importing import import_checkpoint

    return _say(import_checkpoint(file.expanduser(), backbone, benchmark, output), json=json)


def _say(facts: dict[str, Any], *, json: bool) -> int:
    console(as_json=json).show(facts, [{"": key, "is": str(value)} for key, value in facts.items()])
    return 0
