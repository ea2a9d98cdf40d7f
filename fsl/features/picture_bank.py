"""Feature banks of a user's own labelled pictures."""

from collections.abc import Sequence
from pathlib import Path

import torch

from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from clustering.foundation.progress import Progress, quiet
from fsl.benchmarks.benchmark import Split
from fsl.class_names import distinct
from fsl.episodes import LOGIT_SCALE
from fsl.features.bank import FeatureBank
from fsl.features.image_encoder import ImageEncoder
from fsl.features.prompts import PROMPTS
from fsl.picture_folders import digests, labelled_pictures


def bank_of_pictures(
    folder: str | Path,
    encoder: ImageEncoder,
    *,
    class_names: Sequence[str] | None = None,
    prompts: Sequence[str] = PROMPTS,
    split: Split = "novel",
    progress: Progress = quiet,
) -> FeatureBank:
    """Encode the pictures of a folder with one subfolder per class. A network with a text tower also encodes the class
    names, and its logit scale is kept.

    Args:
        folder: the folder.
        encoder: the network.
        class_names: K names, among them those of all subfolders; None: those of the subfolders, sorted.
        prompts: templates of the texts of a class name, in which {} stands for the name.
        split: the split of the features, stored in the bank's provenance.
        progress: shows progress.

    Raises:
        InputError: a picture cannot be used, or a subfolder is not among the class names.
    """
    pictures = labelled_pictures(folder)
    names = distinct(sorted(set(pictures.labels)) if class_names is None else class_names)
    other = sorted(set(pictures.labels) - set(names))
    if other:
        raise InputError(f"the folder {other[0]!r} is not among the class names; rename it, or add the name")
    embeds_names = encoder.embeds_names
    text = encoder.encode_names(names, prompts, progress=progress) if embeds_names else None
    features = encoder.encode(pictures.files, progress=progress).features
    contents = digests(pictures.files)
    return FeatureBank(
        features,
        torch.tensor([names.index(label) for label in pictures.labels]),
        tuple(names),
        provenance={
            "imported": Path(folder).name,
            "content": fingerprint(*contents, *pictures.labels),
            "form": "pictures",
            "backbone": encoder.name,
            "encoder": encoder.fingerprint,
            "split": split,
        },
        text=text,
        logit_scale=encoder.logit_scale if embeds_names else LOGIT_SCALE,
        prompts=tuple(prompts) if embeds_names else (),
    )
