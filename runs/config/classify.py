"""What `transduce classify` takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from clustering.foundation.errors import InputError
from runs.config.base import RunConfig, key
from runs.config.groups import TIMM, Choice

PLACED = ("support", "query", "backbone", "pretrained", "classifier")  # what is in them is fingerprinted apart


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig(RunConfig):
    """A person's own pictures, a few of which are labelled: `transduce classify`."""

    strategy: Choice
    support: str | None = key(None, "folder that has a folder of pictures for each class")
    query: str | None = key(None, "folder with the pictures to be labelled, in folders or not")
    backbone: str | None = key(None, "the network: timm:NAME, or a checkpoint that train or import checkpoint wrote")
    pretrained: str | None = key(None, "weights of backbone=timm:NAME: true, or null: timm's own; FILE: that file's")
    classifier: str | None = key(None, "a saved classifier, in the place of support")
    alone: bool | None = key(
        None, "label each picture by itself, by the nearest prototype; null: of a saved classifier, and of no other"
    )
    broken: Literal["raise", "skip"] = key("raise", "of a picture that cannot be read: raise (an error) or skip")
    output: str | None = key(
        None, "file.csv for the predictions, and beside it the page; null: in the results folder", execution=True
    )
    save: str | None = key(None, "file.safetensors for the classifier; null: it is not saved", execution=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        word = (self.pretrained or "").lower()
        if word == "false":
            raise InputError(
                "pretrained=false: nothing is trained here; leave it out for timm's own weights, or give a FILE"
            )
        if word == "true":
            if self.backbone is not None and not self.backbone.startswith(TIMM):
                raise InputError(
                    f"pretrained=true is for networks of timm, and {self.backbone} has its weights; leave it out"
                )
            object.__setattr__(self, "pretrained", None)

    @property
    def by_itself(self) -> bool:
        """Whether each picture is labelled by itself."""
        return self.classifier is not None if self.alone is None else self.alone

    def check_places(self) -> None:
        """That it was said what is labelled by what, and that the folders and files are there.

        Raises:
            InputError: names the key.
        """
        if self.support is None and self.classifier is None:
            raise InputError("say what is labelled by what: transduce classify --support FOLDER --query FOLDER ...")
        if self.support is not None and self.classifier is not None:
            raise InputError("support= and classifier= are both given; a saved classifier has its support in it")
        if self.query is None:
            raise InputError("say which pictures are to be labelled: --query FOLDER")
        for name in ("support", "query"):
            folder = getattr(self, name)
            if folder is not None and not Path(folder).expanduser().is_dir():
                what = "is no folder" if Path(folder).expanduser().exists() else "no such folder"
                raise InputError(f"{name}: {folder}: {what}; give a folder of pictures with --{name} FOLDER")
        if self.classifier is not None and not Path(self.classifier).expanduser().is_file():
            raise InputError(f"classifier: {self.classifier}: no such file; classify --save FILE writes one")
        if self.backbone is None and self.classifier is None:
            from runs.own_data.trained_networks import networks_here
            from runs.storage.store import Store

            raise InputError(
                "say which network is to look at the pictures: --backbone timm:NAME, or a checkpoint; "
                f"{networks_here(Store(self.results))}"
            )

    def result_keys(self) -> dict[str, Any]:
        """As for every run; what is in folders and files counts, and that is apart."""
        kept = {name: value for name, value in super().result_keys().items() if name not in PLACED}
        kept["alone"] = self.by_itself
        return kept
