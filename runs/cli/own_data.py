"""The verbs for one's own data: classify, label, next, data, import."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from clustering.foundation.errors import InputError, unknown
from runs.cli.app import Json, NoBrowser, Settings, app, console, one, verb
from runs.config import groups
from runs.config.configs import TrainConfig, parse
from runs.config.overrides import split
from runs.labelling.label_config import LabelConfig, NextConfig
from runs.own_data.own_config import ClassifyConfig, without_shift

THEN = {"benchmark": "data check benchmark", "dataset": "cluster dataset", "fair_dataset": "fair dataset"}
"""The beginning of the command that reads the files, by the group of the data."""
PLACES = {"root": "FOLDER", "path": "FILE"}  # keys that name the files of data
INCOMPLETE = 2


@verb("classify", schema=ClassifyConfig)
def classify(settings: Settings = None, json: Json = False) -> int:
    """Classify your own pictures, from a few labelled ones of each class or class names.

    The backbone is a network of timm, a checkpoint of this project, or, for class names, a network of open_clip; by
    default EfficientNet-Lite0, if transduce[pictures] is installed. It is not trained. The predictions, with the
    probability of every class, are written as a CSV file and as a page of thumbnails, least certain first. shift is
    false unless you set it, because your pictures may have other class proportions than the support. A transductive
    strategy classifies all pictures jointly; a classifier saved with --save classifies later pictures one by one, by
    the nearest prototype at the time of saving.

    Examples:
      transduce classify --support labelled --query rest
      transduce classify --support labelled --query rest --backbone timm:vit_small_patch14_dinov2
      transduce classify --support labelled --query rest --backbone best.safetensors --strategy tim_adm
      transduce classify --query rest --classes cat,dog --backbone open_clip:ViT-B-32 --pretrained laion2b_s34b_b79k
      transduce classify --support labelled --query rest --backbone best.safetensors --save animals.safetensors
      transduce classify --classifier animals.safetensors --query new
    """
    words = settings or []
    config = one([without_shift(config, words) for config in parse(ClassifyConfig, words)], "classify")
    default = without_shift(parse(ClassifyConfig, [])[0], []).strategy
    names_strategy = config.strategy != default or any(word.startswith("strategy=") for word in words)
    if config.classifier is not None and names_strategy:
        raise InputError("a saved classifier has its own strategy; omit strategy= and its parameters")
    config.check_places()
    config.strategy.build()
    from runs.cache import Store
    from runs.own_data.classify import check_outputs
    from runs.own_data.classify import classify as classified
    from runs.own_data.classify_page import write_classified
    from runs.own_data.page import command_line

    check_outputs(config)
    said, store = console(as_json=json), Store(config.results)
    result = classified(config, store, said)
    written = write_classified(result, store, command_line("classify", words), said)
    for warning in result.warnings:
        said.error(f"warning: {warning}")
    saved = [] if config.save is None else [f"classifier: {config.save}"]
    page = f"thumbnails by class: {written.page.resolve().as_uri()}"
    said.note("\n".join([*result.statements(), f"predictions: {written.rows}", page, *saved]))
    if json:
        said.json({**result.facts(), **written.record()})
        return 0
    counts, count = result.class_counts(), len(result.rows)
    rows = [dict(zip(map(str, counts.columns), map(str, cells), strict=True)) for cells in counts.to_numpy()]
    title = f"{count:,} picture{'' if count == 1 else 's'} in {len(result.classes)} classes"
    if result.accuracy is not None:
        title += f"; {100 * result.accuracy:.1f} % agree with the class name of their folder"
    said.table(rows, title=title, right=[*rows[0]][1:])
    return 0


@verb("label", schema=LabelConfig, positional=("pile", "labels"))
def label(settings: Settings = None, no_browser: NoBrowser = False) -> int:
    """Label a pile of pictures or rows on a page, from a few labels to all.

    The pile, named first, is a folder of pictures, a table with a column of features, or a file of features. The page
    shows a few items at a time, and one key gives a class. After each batch, the strategy labels the whole pile anew,
    and the page shows the predictions of each class, least certain first, their estimated accuracy, and the next items.

    The same command continues a session; several people can work on one page. Ctrl-C ends the page and writes labels
    and predictions of all items. The page listens on this machine only, and its address contains a secret; with --host,
    other machines that know the address can read the pile and answer.

    Labels that exist, in a CSV file named second, are the first answers; transduce next describes its columns.

    Examples:
      transduce label pictures
      transduce label pictures labels.csv
      transduce label pictures --backbone timm:vit_small_patch14_dinov2
      transduce label pictures --classes cat,dog --backbone open_clip:ViT-B-32 --pretrained laion2b_s34b_b79k
      transduce label table.parquet --features emb --show text,image --classes spam,ham
    """
    config = _of_pile(LabelConfig, settings or [], "label", "a pile and labels")
    from runs.cache import Store
    from runs.labelling.opening import label as open_page

    open_page(config, Store(config.results), console(), browse=not no_browser)
    return 0


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
    facts = as_json(chosen.name, checked)
    said.json(facts) if json else show(facts, said)
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
    backbone: Annotated[
        str | None,
        _text(
            "Of a FOLDER: timm:NAME, open_clip:NAME or FILE; default: efficientnet_lite0, if transduce[pictures] is "
            "installed."
        ),
    ] = None,
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
