"""Conversion of features and weights of other programs to files of this project."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError, unknown
from fsl.backbones.names import TIMM, check_backbone
from runs.cache import content_hash
from runs.config import groups
from runs.console.output import Console
from runs.storage.disk import write_text
from runs.storage.model_card import IMAGENET, folded_in_words, is_card, model_card
from runs.storage.together import check_place

if TYPE_CHECKING:
    from fsl.features.bank import FeatureBank

SPLITS = ("base", "validation", "novel")
OF_FEATURES = ("labels", "text_features", "classes", "logit_scale", "column", "label_column", "text_column", "prompt")
OF_PICTURES = ("backbone", "pretrained", "prompts")


def import_features(path: Path, values: Mapping[str, Any], console: Console) -> dict[str, Any]:
    """Convert a file of features, or encode a folder of pictures; return what was written.

    Args:
        path: the file or folder.
        values: split, output, and the keys in OF_FEATURES and OF_PICTURES.
    """
    if values["split"] not in SPLITS:
        raise unknown("split", values["split"], SPLITS)
    surplus = next((name for name in OF_PICTURES if values[name] is not None), None)
    if surplus and not path.is_dir():
        raise InputError(f"{surplus}= applies to a folder of pictures, and {path} is none; omit it")
    from fsl.features import foreign
    from fsl.features.bank import FORMAT

    output, card = _places(path, values["output"], FORMAT)
    if path.is_dir():
        bank = _of_pictures(path, values, console)
    else:
        bank = foreign.import_features(path, values["split"], **_given(values))
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
    weights = None if values["pretrained"] in (None, "true") else str(values["pretrained"])
    return bank_of_pictures(
        folder,
        ImageEncoder.of(str(values["backbone"]), weights=weights),
        class_names=None if names is None else read_class_names(Path(str(names)).expanduser()),
        prompts=PROMPTS if prompts is None else read_words(Path(str(prompts)).expanduser(), ("prompt", "prompts")),
        split=values["split"],
        progress=console,
    )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `import_features` for the keys that are set."""
    paths = ("labels", "text_features", "classes")
    given = {name: values[name] for name in OF_FEATURES if values[name] is not None}
    return {name: Path(value).expanduser() if name in paths else value for name, value in given.items()}


def import_checkpoint(path: Path, backbone_name: str, benchmark: str, target: str | None) -> dict[str, Any]:
    """Convert the weights of another program; return what was written.

    Args:
        path: the file.
        backbone_name: the network of the weights.
        benchmark: the benchmark it was trained on, which sets image size and channels.
        target: the file to write; None: beside the current folder's others, by the name of the file.
    """
    check_backbone(backbone_name)
    name = backbone_name.removeprefix(TIMM)
    kind = groups.option("benchmark", benchmark).kind
    from clustering.foundation.fingerprint import fingerprint
    from fsl.weights.checkpoints import FORMAT, is_checkpoint, save_backbone
    from fsl.weights.foreign import import_backbone

    if is_checkpoint(path):
        raise InputError(f"{path}: is already a checkpoint of this project; use checkpoint={path}")
    output, card = _places(path, target, FORMAT)
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
    from clustering.files.tensors import read_header

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
