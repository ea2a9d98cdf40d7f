"""The config of `transduce classify`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above
from fsl.backbones.names import OPEN_CLIP, TIMM
from runs.config.base import RunConfig, key
from runs.config.groups import Choice
from runs.config.overrides import split

SHIFT = "shift"  # field of a strategy
Shifted = TypeVar("Shifted", bound=RunConfig)

# Their content is fingerprinted separately, that of the last seven as features of the class names or of the pictures.
PATHS = (
    *("support", "query", "backbone", "pretrained", "classifier"),
    *("classes", "prompts", "logit_scale", "text_features", "query_features", "text_column", "column"),
)


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig(RunConfig):
    """Classification of a user's own pictures from a few labelled ones, or class names: `transduce classify`."""

    defaults: ClassVar[Mapping[str, str]] = {"strategy": "laplacianshot"}

    strategy: Choice
    support: str | None = key(None, "folder with one subfolder of labelled pictures for each class")
    query: str | None = key(None, "folder of pictures to classify; subfolders are read too")
    classes: tuple[str, ...] | None = key(None, "class names: a,b,c, or FILE.txt with one per line")
    prompts: str | None = key(
        None, "file with one template per line for the texts of a class name, such as: a photo of a {}."
    )
    backbone: str | None = key(
        None, "the network: timm:NAME, open_clip:NAME, or a checkpoint written by train or import checkpoint"
    )
    pretrained: str | None = key(
        None,
        "weights of backbone=timm:NAME: true or null for timm's own, or FILE; of backbone=open_clip:NAME: TAG or FILE",
    )
    query_features: str | None = key(None, "file of features to classify, instead of query; the network is not needed")
    text_features: str | None = key(None, "file of features of the class names, one row per name, in their order")
    column: str | None = key(
        None, "array or column of query_features; for columns of numbers a pattern, such as emb_*; null: by its name"
    )
    text_column: str | None = key(None, "array or column of text_features, likewise")
    logit_scale: Annotated[float, Above(0)] | None = key(
        None, "factor of the cosines between pictures and class names; null: that of the network, or 100"
    )
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
            if self.backbone is not None and self.backbone.startswith(OPEN_CLIP):
                raise InputError(f"pretrained=true does not name the weights of {self.backbone}; give a TAG or FILE")
            if self.backbone is not None and not self.backbone.startswith(TIMM):
                raise InputError(
                    f"pretrained=true applies to networks of timm only; {self.backbone} has its own weights; omit it"
                )
            object.__setattr__(self, "pretrained", None)

    @property
    def by_itself(self) -> bool:
        """Whether each picture is classified by itself."""
        return self.classifier is not None if self.alone is None else self.alone

    def class_names(self) -> tuple[str, ...] | None:
        """The given class names, from the key or its file.

        Raises:
            InputError: the file cannot be read, or there are fewer than two names, empty or repeated ones.
        """
        if self.classes is None:
            return None
        from fsl.class_names import distinct

        try:
            if len(self.classes) > 1:
                return tuple(distinct(self.classes))
            from fsl.features.arrays import read_class_names  # imports torch

            path = Path(self.classes[0]).expanduser()
            if not path.is_file():
                raise InputError(f"{path}: no such file; give at least two names, a,b,c, or a file with one per line")
            return tuple(distinct(read_class_names(path)))
        except InputError as error:
            raise InputError(f"classes: {error}") from error

    def templates(self) -> tuple[str, ...] | None:
        """The lines of the file of prompts.

        Raises:
            InputError: the file cannot be read, or a line has no {}.
        """
        if self.prompts is None:
            return None
        from clustering.files.words import read_words
        from fsl.features.prompts import texts_of

        try:
            templates = tuple(read_words(Path(self.prompts).expanduser(), ("prompt", "prompts")))
            texts_of((), templates)
        except InputError as error:
            raise InputError(f"prompts: {error}") from error
        return templates

    def check_places(self) -> None:
        """Check that the required folders and files are given and exist, and that the keys go together.

        Raises:
            InputError: a key is missing, does not go with another one, or its path does not exist; the message names
                the key.
        """
        if self.support is None and self.classifier is None and self.classes is None:
            raise InputError(
                "neither labelled pictures nor class names given: transduce classify --support FOLDER --query FOLDER "
                "..., or --classes a,b,c"
            )
        for first, second, reason in (
            ("support", "classifier", "a saved classifier already contains its support"),
            ("classes", "classifier", "a saved classifier already has its classes"),
            ("query", "query_features", "omit one of them"),
            ("support", "query_features", "pictures and features cannot be mixed; omit one of them"),
            ("prompts", "text_features", "prompts are for a network that computes the features; omit one of them"),
        ):
            if getattr(self, first) is not None and getattr(self, second) is not None:
                raise InputError(f"{first}= and {second}= are both given; {reason}")
        for first, second in (("column", "query_features"), ("text_column", "text_features")):
            if getattr(self, first) is not None and getattr(self, second) is None:
                raise InputError(f"{first}= applies to {second}; add --{_flag(second)} FILE, or omit it")
        if self.query is None and self.query_features is None:
            raise InputError("no pictures to classify given: add --query FOLDER")
        for name in ("prompts", "text_features", "logit_scale"):
            if self.classes is None and getattr(self, name) is not None:
                raise InputError(f"{name}= applies to class names; add --classes a,b,c, or omit it")
        for name in ("support", "query"):
            folder = getattr(self, name)
            if folder is not None and not Path(folder).expanduser().is_dir():
                problem = "not a folder" if Path(folder).expanduser().exists() else "no such folder"
                raise InputError(f"{name}: {folder}: {problem}; give a folder of pictures with --{name} FOLDER")
        if self.classifier is not None and not Path(self.classifier).expanduser().is_file():
            raise InputError(f"classifier: {self.classifier}: no such file; write one with classify --save FILE")
        for name in ("query_features", "text_features"):
            file = getattr(self, name)
            if file is not None and not Path(file).expanduser().is_file():
                raise InputError(f"{name}: {file}: no such file; give a file of features with --{_flag(name)} FILE")
        self._check_network()
        self.class_names()
        self.templates()

    def _check_network(self) -> None:
        """Check that there is a network for what has to be encoded."""
        embeds_names = self.classes is not None and self.text_features is None
        if self.backbone is None and self.classifier is None and (self.query is not None or embeds_names):
            from runs.cache import Store
            from runs.own_data.trained_networks import networks_here

            if self.classes is not None:
                raise InputError(
                    "no network given for the class names: add --backbone open_clip:NAME pretrained=TAG, or, with "
                    "features of your own, --query-features FILE --text-features FILE"
                )
            raise InputError(
                "no network given: add --backbone timm:NAME, or --backbone FILE with a checkpoint; "
                f"{networks_here(Store(self.results))}"
            )
        if embeds_names and not (self.backbone or "").startswith(OPEN_CLIP):
            raise InputError(
                f"backbone={self.backbone} has no text tower for the class names; give --backbone open_clip:NAME "
                "pretrained=TAG, or --text-features FILE"
            )

    def result_keys(self) -> dict[str, Any]:
        """Return the keys that can change the result; the contents of folders and files are added separately."""
        kept = {name: value for name, value in super().result_keys().items() if name not in PATHS}
        kept["alone"] = self.by_itself
        return kept


def without_shift(config: Shifted, settings: Sequence[str]) -> Shifted:
    """Set `shift` to false unless the user set it: the class proportions of own pictures are unknown."""
    is_set = any(split(setting)[0].rpartition(".")[2] == SHIFT for setting in settings)
    strategy: Choice = config.choices()["strategy"]
    if SHIFT in strategy.options and not is_set:
        return config.replace(strategy=strategy.at({SHIFT: False}))
    return config


def _flag(name: str) -> str:
    return name.replace("_", "-")
