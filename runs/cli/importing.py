"""`transduce import`: convert features and weights of other programs to files of this project."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError, unknown
from runs.cache import content_hash
from runs.cli.flags import Flags, describe
from runs.cli.keys import read_keys
from runs.config import groups
from runs.config.timm_names import check_backbone
from runs.console.output import Console
from runs.storage.disk import write_text
from runs.storage.model_card import IMAGENET, folded_in_words, is_card, model_card
from runs.storage.together import check_place

if TYPE_CHECKING:
    from fsl.features.bank import FeatureBank

FLAGS = ("json",)
OF_FEATURES = ("labels", "text_features", "classes", "logit_scale", "column", "label_column", "text_column", "prompt")
KEYS = ("split", "backbone", "benchmark", "pretrained", "prompts", "output", *OF_FEATURES)
SPLITS = ("base", "validation", "novel")  # those of fsl.benchmarks.benchmark, which imports numpy
OF_PICTURES = ("backbone", "pretrained", "prompts")
FEATURES: Mapping[str, Any] = {"split": "novel", **dict.fromkeys((*OF_FEATURES, *OF_PICTURES)), "output": None}
CHECKPOINT: Mapping[str, Any] = {"backbone": "conv4", "benchmark": "mini", "output": None}
ABOUT = """\
usage: transduce import features FILE|FOLDER [key=value ...] [--flag ...]
       transduce import checkpoint FILE [key=value ...] [--flag ...]

features converts features that another program extracted to a feature bank. It reads SimpleShot's output.plk, the
pickles of S2M2 and PT-MAP, and .npy, .npz, .pt, .safetensors and .parquet files. An .npz, .pt or .safetensors has
arrays features (N, D) and labels (N,), optionally with the split in the name (features_novel, labels_novel), and
optionally class_names, text (K, D), logit_scale and base_mean. A .parquet has a column of lists, or columns of floats,
and a column of labels. Labels, class names and text features may also have files of their own.
A FOLDER with one subfolder of pictures per class is encoded by a network; one of open_clip encodes class names, too.
checkpoint converts the weights of another program (.pth.tar and similar, .npz or .safetensors) to the parameter names
of this project, and lists the weights without a counterpart.
No code in a file is executed; a pickle that requires it is rejected.
Importing is optional for single files: transduce evaluate also accepts checkpoint=FILE and features=FILE.

keys (or as flags, --backbone conv4):
  split=novel      features: the split of the images: base, validation or novel
  labels=FILE      features: one label per picture, an integer or a class name (.npy, .txt, .csv or as above)
  classes=FILE     features: the class names, one a line (.txt), in a column (.csv) or an array
  text_features=FILE  features: one row per class name, from the text tower of the network
  logit_scale=100  features: factor of the cosines between pictures and class names
  column=NAME      features: the array or column of the features; for columns of floats a pattern, such as emb_*
  label_column=NAME, text_column=NAME  features: the array or column of the labels, and of the text features
  prompt=NUMBER    features: one prompt, from 0, of an array text_by_prompt (P, K, D), in place of text (K, D)
  backbone=NAME    features of a FOLDER: timm:NAME, open_clip:NAME or a checkpoint of this project
  pretrained=FILE  features of a FOLDER: weights of timm:NAME (null: timm's own), or a tag or file for open_clip:NAME
  prompts=FILE     features of a FOLDER: templates for the texts of a class name, one a line: a photo of a {{}}.
  backbone=conv4   checkpoint: the network of the weights
  benchmark=mini   checkpoint: the benchmark it was trained on, which sets image size and channels
  output=null      the file to write; null: the name of FILE with the ending .safetensors, in the current folder. A
                   model card with the ending .md is written beside it

flags:
{flags}

examples:
  transduce import features output.plk
  transduce import features features.npz split=validation output=validation.safetensors
  transduce import features clip.parquet column=embedding label_column=category
  transduce import features images.npy labels=labels.csv text_features=text.npy classes=names.txt
  transduce import features pictures --backbone open_clip:ViT-B-32 --pretrained laion2b_s34b_b79k
  transduce import checkpoint model_best.pth.tar --backbone conv4 --benchmark mini
"""


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    return ABOUT.format(flags=describe(FLAGS))


def run(flags: Flags, console: Console) -> int:
    """Import one file."""
    words = [setting for setting in flags.settings if "=" not in setting]
    keys = [setting for setting in flags.settings if "=" in setting]
    kinds = {"features": (_features, FEATURES), "checkpoint": (_checkpoint, CHECKPOINT)}
    if not words:
        raise InputError("give a kind and a file: transduce import features FILE, or transduce import checkpoint FILE")
    if words[0] not in kinds:
        raise unknown("kind", words[0], kinds)
    if len(words) != 2:
        raise InputError(f"import {words[0]} takes one file: transduce import {words[0]} FILE [key=value ...]")
    take, defaults = kinds[words[0]]
    facts = take(Path(words[1]).expanduser(), read_keys(keys, defaults), console)
    if console.as_json:
        console.json(facts)
    else:
        console.table([{"": key, "is": str(value)} for key, value in facts.items()])
    return 0


def _features(path: Path, values: Mapping[str, Any], console: Console) -> dict[str, Any]:
    if values["split"] not in SPLITS:
        raise unknown("split", values["split"], SPLITS)
    surplus = next((name for name in OF_PICTURES if values[name] is not None), None)
    if surplus and not path.is_dir():
        raise InputError(f"{surplus}= applies to a folder of pictures, and {path} is none; omit it")
    from fsl.features.bank import FORMAT
    from fsl.features.foreign import import_features

    output, card = _places(path, values["output"], FORMAT)
    if path.is_dir():
        bank = _of_pictures(path, values, console)
    else:
        bank = import_features(path, values["split"], **_given(values))
    bank.save(output)
    facts = {"stage": "features", **bank.provenance, "fingerprint": bank.fingerprint()}
    summary = f"Features of {len(bank.features):,} images of {len(bank.class_names)} classes, from {path.name}."
    use = f"transduce evaluate features={output.name} strategy=simpleshot"
    write_text(card, model_card(f"Features from {path.name}", summary, facts, use))
    return {
        "features": str(output),
        "form": bank.provenance["form"],
        "split": values["split"],
        "images": len(bank.features),
        "dimension": bank.dimension,
        "classes": len(bank.class_names),
        **({} if bank.text is None else {"class names": f"with text features, logit scale {bank.logit_scale:g}"}),
        "base_mean": "known" if bank.base_mean is not None else "unknown: CL2N needs it, UN and L2N do not",
        "fingerprint": bank.fingerprint(),
        "card": str(card),
    }


def _of_pictures(folder: Path, values: Mapping[str, Any], console: Console) -> "FeatureBank":
    """Return the features of the pictures in a folder with one subfolder per class.

    Raises:
        InputError: a key does not apply to pictures, or there is no network; or see `bank_of_pictures`.
    """
    surplus = next((name for name in OF_FEATURES if values[name] is not None and name != "classes"), None)
    if surplus:
        raise InputError(f"{surplus}= applies to files of features, and {folder} is a folder of pictures; omit it")
    if values["backbone"] is None:
        raise InputError(f"{folder}: no network for these pictures; add --backbone timm:NAME, open_clip:NAME or FILE")
    from clustering.files.words import read_words
    from fsl.features.arrays import read_class_names
    from fsl.features.image_encoder import ImageEncoder
    from fsl.features.picture_bank import bank_of_pictures
    from fsl.features.prompts import PROMPTS
    from fsl.picture_folders import labelled_pictures

    labelled_pictures(folder)  # first, because an invalid folder is detected faster than a network is created
    names, prompts = values["classes"], values["prompts"]
    weights = None if values["pretrained"] in (None, True) else str(values["pretrained"])
    return bank_of_pictures(
        folder,
        ImageEncoder.of(str(values["backbone"]), weights=weights),
        class_names=None if names is None else read_class_names(Path(str(names)).expanduser()),
        prompts=PROMPTS if prompts is None else read_words(Path(str(prompts)).expanduser(), ("prompt", "prompts")),
        split=values["split"],
        progress=console,
    )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `import_features` for the keys that are set.

    Raises:
        InputError: the logit scale is not a number, or the prompt is no integer.
    """
    given: dict[str, Any] = {name: str(values[name]) for name in OF_FEATURES if values[name] is not None}
    for name in ("labels", "text_features", "classes"):
        if name in given:
            given[name] = Path(given[name]).expanduser()
    if "logit_scale" in given:
        if isinstance(values["logit_scale"], bool) or not isinstance(values["logit_scale"], (int, float)):
            raise InputError(f"logit_scale must be a number, not {given['logit_scale']!r}")
        given["logit_scale"] = float(values["logit_scale"])
    if "prompt" in given:
        if type(values["prompt"]) is not int:
            raise InputError(f"prompt must be an integer at least 0, not {given['prompt']!r}")
        given["prompt"] = values["prompt"]
    return given


def _checkpoint(path: Path, values: Mapping[str, Any], console: Console) -> dict[str, Any]:
    check_backbone(values["backbone"], groups.names("backbone"))
    name = values["backbone"].removeprefix(groups.TIMM)
    kind = groups.option("benchmark", values["benchmark"]).kind
    from clustering.foundation.fingerprint import fingerprint
    from fsl.weights.checkpoints import FORMAT, is_checkpoint, save_backbone
    from fsl.weights.foreign import import_backbone

    if is_checkpoint(path):
        raise InputError(f"{path}: is already a checkpoint of this project; use checkpoint={path}")
    output, card = _places(path, values["output"], FORMAT)
    form = {"channels": kind.channels, "size": kind.size}
    backbone = import_backbone(path, name, **form)
    content = fingerprint(path.read_bytes())
    details = {"imported": path.name, "content": content, "mean": list(kind.mean), "std": list(kind.std)}
    save_backbone(output, backbone, name, **form, about={"benchmark": kind.name, **details})
    folded: Sequence[str] = backbone.folded  # type: ignore[assignment]
    facts = {"stage": "checkpoint", "benchmark": kind.name, "backbone": name, "imported": path.name, "content": content}
    facts |= {"fingerprint": content_hash(output)[:16]} | ({"changed": folded_in_words(folded)} if folded else {})
    summary = f"Weights of {name} without its classifier, converted from {path.name}, a file of another program."
    use = f"transduce evaluate benchmark={kind.name} backbone={name} checkpoint={output.name}"
    write_text(card, model_card(f"{name} from {path.name}", summary, facts, use, [IMAGENET]))
    return {
        "checkpoint": str(output),
        "backbone": name,
        "images": f"{kind.channels} x {kind.size} x {kind.size}",
        "tensors": len(backbone.state_dict()),
        "parameters": sum(parameter.numel() for parameter in backbone.parameters()),
        "left out": ", ".join(backbone.left_out) or "none",  # type: ignore[arg-type]
        **({"changed": folded_in_words(folded)} if folded else {}),
        "card": str(card),
    }


def _places(path: Path, output: str | None, kind: str) -> tuple[Path, Path]:
    """Return the paths of the output file and its model card; files of another kind are never overwritten."""
    from clustering.files.tensor_headers import read_header

    stem = path.name.removesuffix(".tar").rpartition(".")[0] or path.name
    place = Path(output).expanduser() if output else Path(f"{stem}.safetensors")
    check_place("output", place, ".safetensors")
    if place.exists():
        if path.exists() and place.samefile(path):
            raise InputError(f"output={place} is the file to import; give another path with output=FILE")
        remedy = "only imported files are overwritten; give another path with output=FILE"
        header = read_header(place, remedy, kind)
        if '"imported":' not in header.get("about", header.get("provenance", "")):  # trained or extracted here
            raise InputError(f"output={place}: exists, and was not imported; {remedy}")
    card = place.with_suffix(".md")
    if os.path.lexists(card) and not is_card(card):
        raise InputError(f"{card} exists, and is not a model card; give another path with output=FILE")
    return place, card
