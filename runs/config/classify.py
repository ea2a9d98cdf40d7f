"""The config of `transduce classify`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from clustering.foundation.errors import InputError
from runs.config.base import RunConfig, key
from runs.config.groups import TIMM, Choice

PATHS = ("support", "query", "backbone", "pretrained", "classifier")  # their content is fingerprinted separately


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig(RunConfig):
    """Classification of a user's own pictures from a few labelled ones: `transduce classify`."""

    strategy: Choice
    support: str | None = key(None, "folder with one subfolder of labelled pictures for each class")
    query: str | None = key(None, "folder of pictures to classify; subfolders are read too")
    backbone: str | None = key(None, "the network: timm:NAME, or a checkpoint written by train or import checkpoint")
    pretrained: str | None = key(None, "weights of backbone=timm:NAME; true or null: timm's own; FILE: from a file")
    classifier: str | None = key(None, "file of a saved classifier, instead of support")
    alone: bool | None = key(
        None, "classify each picture by itself, by the nearest prototype; null: true for a saved classifier, else false"
    )
    broken: Literal["raise", "skip"] = key("raise", "pictures that cannot be read: raise (an error) or skip")
    output: str | None = key(
        None,
        "CSV file for the predictions; the page is written beside it; null: in the results folder",
        execution=True,
    )
    save: str | None = key(None, "safetensors file for the classifier; null: do not save it", execution=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        word = (self.pretrained or "").lower()
        if word == "false":
            raise InputError(
                "pretrained=false: classify trains no network; omit it for timm's own weights, or give a FILE"
            )
        if word == "true":
            if self.backbone is not None and not self.backbone.startswith(TIMM):
                raise InputError(
                    f"pretrained=true applies to networks of timm only; {self.backbone} has its own weights; omit it"
                )
            object.__setattr__(self, "pretrained", None)

    @property
    def by_itself(self) -> bool:
        """Whether each picture is classified by itself."""
        return self.classifier is not None if self.alone is None else self.alone

    def check_places(self) -> None:
        """Check that the required folders and files are given and exist.

        Raises:
            InputError: a key is missing or its path does not exist; the message names the key.
        """
        if self.support is None and self.classifier is None:
            raise InputError("no labelled pictures given: transduce classify --support FOLDER --query FOLDER ...")
        if self.support is not None and self.classifier is not None:
            raise InputError("support= and classifier= are both given; a saved classifier already contains its support")
        if self.query is None:
            raise InputError("no pictures to classify given: add --query FOLDER")
        for name in ("support", "query"):
            folder = getattr(self, name)
            if folder is not None and not Path(folder).expanduser().is_dir():
                problem = "not a folder" if Path(folder).expanduser().exists() else "no such folder"
                raise InputError(f"{name}: {folder}: {problem}; give a folder of pictures with --{name} FOLDER")
        if self.classifier is not None and not Path(self.classifier).expanduser().is_file():
            raise InputError(f"classifier: {self.classifier}: no such file; write one with classify --save FILE")
        if self.backbone is None and self.classifier is None:
            from runs.own_data.trained_networks import networks_here
            from runs.storage.store import Store

            raise InputError(
                "no network given: add --backbone timm:NAME, or --backbone FILE with a checkpoint; "
                f"{networks_here(Store(self.results))}"
            )

    def result_keys(self) -> dict[str, Any]:
        """Return the keys that can change the result; the contents of folders and files are added separately."""
        kept = {name: value for name, value in super().result_keys().items() if name not in PATHS}
        kept["alone"] = self.by_itself
        return kept
