"""Conversion of features and weights of other programs to files of this project."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError, unknown
from fsl.backbones.names import PACKAGED, TIMM, check_backbone, has_packaged
from runs.config import groups
from runs.console.output import Console
from runs.own_data.own_config import DEFAULT_NETWORK
from runs.storage.together import check_place

if TYPE_CHECKING:
    from fsl.features.bank import FeatureBank

SPLITS = ("base", "validation", "novel")
OF_FILES = ("labels", "text_features", "logit_scale", "column", "label_column", "text_column", "prompt")
OF_PICTURES = ("backbone", "pretrained", "prompts")
PATHS = ("labels", "text_features", "classes")


def import_features(path: Path, values: Mapping[str, Any], console: Console) -> dict[str, Any]:
    """Convert a file of features, or encode a folder of pictures; return what was written.

    Args:
        path: the file or folder.
        values: split, output, classes, and the keys in OF_FILES and OF_PICTURES; None for those that are not given.
        console: shows progress.
    """
    if values["split"] not in SPLITS:
        raise unknown("split", values["split"], SPLITS)
    given = {name: Path(str(value)).expanduser() if name in PATHS else value for name, value in values.items()}
    given = {name: value for name, value in given.items() if values[name] is not None}
    for names, applies, what in (
        (OF_PICTURES, path.is_dir(), "a folder of pictures, which"),
        (OF_FILES, not path.is_dir(), "a file of features, which"),
    ):
        if not applies and (surplus := next((name for name in names if name in given), "")):
            raise InputError(f"{surplus}= applies to {what} {path} is not; omit it")
    from fsl.features import foreign
    from fsl.features.bank import FORMAT

    output = _place(path, values["output"], FORMAT)
    if path.is_dir():
        bank = _of_pictures(path, given, console)
    else:
        options: dict[str, Any] = {name: value for name, value in given.items() if name in (*OF_FILES, "classes")}
        bank = foreign.import_features(path, values["split"], **options)
    bank.save(output)
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
    }


def _of_pictures(folder: Path, given: Mapping[str, Any], console: Console) -> "FeatureBank":
    """The features of the pictures in a folder with one subfolder per class. A network with a text tower also encodes
    the class names, and its logit scale is kept.

    Raises:
        InputError: there is no network, a picture cannot be used, or a subfolder is not among the class names.
    """
    if "backbone" not in given and not has_packaged():
        raise InputError(
            f"{folder}: no network for these pictures; add --backbone timm:NAME, open_clip:NAME or FILE; or install "
            "one: pip install 'transduce[pictures]'"
        )
    import torch

    from clustering.feature_files import read_class_names
    from clustering.files.words import read_words
    from clustering.foundation.fingerprint import fingerprint
    from fsl.episodes import LOGIT_SCALE
    from fsl.features.bank import FeatureBank
    from fsl.features.image_encoder import ImageEncoder
    from fsl.features.prompts import PROMPTS, distinct
    from fsl.picture_folders import digests, labelled_pictures

    if "backbone" not in given:
        console.note(DEFAULT_NETWORK)
    files, labels = labelled_pictures(folder)
    names = distinct(read_class_names(given["classes"]) if "classes" in given else sorted(set(labels)))
    if other := sorted(set(labels) - set(names)):
        raise InputError(f"the folder {other[0]!r} is not among the class names; rename it, or add the name")
    own = given.get("prompts")
    prompts = PROMPTS if own is None else tuple(read_words(Path(own).expanduser(), ("prompt", "prompts")))
    encoder = ImageEncoder.of(given.get("backbone", PACKAGED), weights=given.get("pretrained"))
    named = encoder.embeds_names
    text = encoder.encode_names(names, prompts, progress=console) if named else None
    return FeatureBank(
        encoder.encode(files, progress=console).features,
        torch.tensor([names.index(label) for label in labels]),
        tuple(names),
        provenance={
            "imported": folder.name,
            "content": fingerprint(*digests(files), *labels),
            "form": "pictures",
            "backbone": encoder.name,
            "encoder": encoder.fingerprint,
            "split": given["split"],
        },
        text=text,
        logit_scale=encoder.logit_scale if named else LOGIT_SCALE,
        prompts=prompts if named else (),
    )


def import_checkpoint(path: Path, backbone_name: str, benchmark: str, target: str | None) -> dict[str, Any]:
    """Convert the weights of another program; return what was written.

    Args:
        path: the file.
        backbone_name: the network of the weights.
        benchmark: the benchmark it was trained on, which sets image size and channels.
        target: the file to write; None: in the current folder, by the name of the file.
    """
    check_backbone(backbone_name)
    name = backbone_name.removeprefix(TIMM)
    kind = groups.option("benchmark", benchmark).kind
    from clustering.foundation.fingerprint import fingerprint
    from fsl.weights.checkpoints import FORMAT, is_checkpoint, save_backbone
    from fsl.weights.foreign import import_backbone

    if is_checkpoint(path):
        raise InputError(f"{path}: is already a checkpoint of this project; use checkpoint={path}")
    output = _place(path, target, FORMAT)
    form = {"channels": kind.channels, "size": kind.size}
    backbone = import_backbone(path, name, **form)
    details = {"imported": path.name, "content": fingerprint(path.read_bytes())}
    about = {"benchmark": kind.name, **details, "mean": list(kind.mean), "std": list(kind.std)}
    save_backbone(output, backbone, name, **form, about=about)
    changed = len(backbone.folded)  # type: ignore[arg-type]
    return {
        "checkpoint": str(output),
        "backbone": name,
        "images": f"{kind.channels} x {kind.size} x {kind.size}",
        "tensors": len(backbone.state_dict()),
        "parameters": sum(parameter.numel() for parameter in backbone.parameters()),
        "left out": ", ".join(backbone.left_out) or "none",  # type: ignore[arg-type]
        **({"changed": f"{changed} biases of convolutions merged into running means"} if changed else {}),
    }


def _place(path: Path, output: str | None, kind: str) -> Path:
    """The path of the output file; files of another kind are never overwritten."""
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
    return place
