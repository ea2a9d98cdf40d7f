"""The config of `transduce cluster`."""

import os
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, Within
from fsl.backbones.names import OPEN_CLIP, PACKAGED, TIMM, has_packaged
from runs.config.base import RunConfig, content, key
from runs.config.groups import Choice

NONE = "none"  # the option network=none
STARTS = 10  # default number of fits
PIXELS = "pixels"  # the option backbone=pixels


@dataclass(frozen=True, kw_only=True)
class ClusterConfig(RunConfig):
    """One method on one data set: `transduce cluster`."""

    dataset: Choice
    method: Choice
    network: Choice
    n_clusters: Annotated[int, AtLeast(1)] | Literal["auto"] | None = key(
        None, "number of clusters; auto: found in the graph of neighbours; null: that of the classes"
    )
    labels: str | None = key(
        None,
        "labelled points: 50 (equally many of each class) or 5% (of all points), drawn at random; or FILE.csv with the "
        "classes of some rows or files. The other points are scored",
        counts=False,
    )
    wrong: Annotated[float, Within(0, 1)] = key(
        0.0, "share of the drawn labels with a random class; methods with label smoothing receive it", counts=None
    )
    links: Annotated[int, AtLeast(1)] | None = key(
        None,
        "number of pairs of points, drawn at random, for which it is known whether both have the same class. Without "
        "labels=, all points are scored",
        counts=None,
    )
    coarse: tuple[str | int, ...] | None = key(
        None,
        "a set of classes, as [4, 9]; for a random half of the points it is known whether their class is in the set. "
        "The other half is scored",
        counts=None,
    )
    starts: Annotated[int, Within(1, 1000)] | None = key(
        None, f"number of fits, of which the one with the lowest objective is kept; null: {STARTS}, with a network 1"
    )
    selection: str | None = key(
        "papers", "settings for the column selected by labels: papers, or FILE.yaml; null: no column", counts=False
    )
    map_points: Annotated[int, Within(10, 2000)] | None = key(
        None, "number of points on a t-SNE map of learned features, stored with the run; null: no map", counts=None
    )
    backbone: str | None = key(
        None,
        "dataset=folder: the network whose features of the pictures are clustered: timm:NAME, open_clip:NAME, or a "
        f"checkpoint; pixels: none; null: {PACKAGED}, if transduce[pictures] is installed, else pixels. A method that "
        "learns features gets pixels",
        counts=False,
    )
    pretrained: str | None = key(
        None,
        "weights of backbone=timm:NAME: null for timm's own, or FILE; of open_clip:NAME: TAG or FILE",
        counts=False,
    )
    output: str | None = key(
        None,
        "dataset=table: file for the rows with their clusters; the page is written beside it. dataset=folder: CSV file "
        "for pictures and clusters. null: in the results folder",
        execution=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        labels = self.asked_labels()
        if self.wrong and not isinstance(labels, int | float):
            raise InputError(f"wrong={self.wrong:g} applies to randomly drawn labels; add labels=50%, or omit it")
        if self.backbone is not None and (self.dataset.plugin != "folder" or (self.learns and self.encoder)):
            raise InputError(
                f"backbone={self.backbone}: features of a network are clustered of dataset=folder root=FOLDER, without "
                "network=, which learns its own from pixels; omit one of them"
            )
        if self.pretrained is not None and not (self.encoder or "").startswith((TIMM, OPEN_CLIP)):
            raise InputError(f"pretrained={self.pretrained}: applies to backbone=timm:NAME or open_clip:NAME; omit it")
        if self.coarse is not None:
            object.__setattr__(self, "coarse", tuple(sorted(set(map(str, self.coarse)))))  # order does not matter
        if self.starts is None:
            object.__setattr__(self, "starts", 1 if self.learns else STARTS)
        elif self.learns and self.starts > 1:
            raise InputError(f"starts={self.starts}: a training is a run of its own; give several seeds, as seed=0,1,2")

    @property
    def learns(self) -> bool:
        """Whether the run trains a network."""
        return self.network.name != NONE

    @property
    def encoder(self) -> str | None:
        """The network whose features stand for the pictures of a folder; None for pixels, and for other data."""
        if self.backbone is None:
            pictures = self.dataset.plugin == "folder" and not self.learns and self.method.plugin != "xsdc"
            return PACKAGED if pictures and has_packaged() else None
        return None if self.backbone == PIXELS else self.backbone

    @property
    def fits(self) -> int:
        """Number of fits of the run."""
        return self.starts or 1

    def asked_labels(self) -> "int | float | str | None":
        """Return the parsed key `labels`: a number or a share of the points, a file name, or None."""
        text = (self.labels or "").strip()
        number = re.fullmatch(r"(\d+)|(\d*\.?\d+)(%?)", text)
        if self.labels is not None and not text:
            raise InputError("labels= is empty; give a number, a share as 5%, or FILE.csv, or omit it")
        if number is None and text.lower() != "all":
            return text or None
        if number and number[1]:
            return int(text) or None
        share = float(number[2]) / (100 if number[3] else 1) if number else 1.0
        if share >= 1:
            raise InputError(f"labels={text} leaves no points to cluster; give less than 100%, as 5%, or FILE.csv")
        return share or None

    def result_keys(self) -> dict[str, Any]:
        """Return the keys that can change the result; a file of labels is its content, other files are added apart."""
        kept = super().result_keys()
        kept.pop("dataset.path", None)
        if not self.learns:
            del kept["network"]
        labels = self.asked_labels()
        if labels is not None:
            kept["labels"] = labels
        if self.encoder is not None:  # a file is its content
            named = self.encoder == PACKAGED or self.encoder.startswith((TIMM, OPEN_CLIP))
            kept["encoder"] = self.encoder if named else content("backbone", self.encoder, "the name of a network")
            if (weights := self.pretrained) is not None:
                kept["pretrained"] = content("pretrained", weights, "a tag") if os.path.isfile(weights) else weights
        if isinstance(labels, str):
            kept["labels"] = content("labels", labels, "a number, or a file of labels")
        return kept
