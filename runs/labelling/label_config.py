"""The configs of `transduce label` and `transduce next`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import Above, AtLeast
from fsl.backbones.names import OPEN_CLIP
from runs.config.base import RunConfig, key
from runs.config.groups import Choice

TABLES = (".parquet", ".pq", ".csv", ".tsv")
LONGEST_NAME = 200  # characters of a class name
ARRAYS = (".npy", ".npz", ".pt", ".safetensors")


@dataclass(frozen=True, kw_only=True)
class PileConfig(RunConfig):
    """A pile of pictures or rows, and the strategy that labels it."""

    defaults: ClassVar[Mapping[str, str]] = {"strategy": "smoothed_ridge"}

    strategy: Choice
    pile: str | None = key(None, "folder of pictures, table, or file of features")
    features: tuple[str, ...] | None = key(
        None, "column of the features in a table, columns of numbers a,b,c, or a pattern such as emb_*; null: by name"
    )
    show: tuple[str, ...] | None = key(
        None, "columns of a table to look at, a,b,c; a column of picture files is shown as pictures"
    )
    pictures: str | None = key(None, "folder of the pictures of a file of features: one per row, sorted by path")
    classes: tuple[str, ...] | None = key(None, "class names: a,b,c, or FILE.txt with one per line")
    text_features: str | None = key(
        None, "file of features of the class names, one row per name, in their order; they are used as evidence"
    )
    text_column: str | None = key(None, "array or column of text_features")
    logit_scale: Annotated[float, Above(0)] | None = key(
        None, "factor of the cosines between items and class names; null: that of the network, or 100"
    )
    backbone: str | None = key(
        None, "the network: timm:NAME, open_clip:NAME, or a checkpoint written by train or import checkpoint"
    )
    pretrained: str | None = key(
        None, "weights of backbone=timm:NAME: null for timm's own, or FILE; of backbone=open_clip:NAME: TAG or FILE"
    )
    selection: Literal["variance", "random", "margin"] = key(
        "variance", "how items are chosen: variance, random or margin"
    )
    broken: Literal["raise", "skip"] = key("raise", "pictures that cannot be read: raise (an error) or skip")

    @property
    def place(self) -> Path:
        """The folder or file of the pile."""
        assert self.pile is not None
        return Path(self.pile).expanduser()

    @property
    def is_folder(self) -> bool:
        """Whether the pile is a folder of pictures."""
        return self.place.is_dir()

    @property
    def is_table(self) -> bool:
        """Whether the pile is a table, which has columns to look at."""
        return self.place.suffix.lower() in TABLES

    def class_names(self) -> tuple[str, ...]:
        """The given class names; empty without any.

        Raises:
            InputError: the file cannot be read, or a name is empty, too long or given twice.
        """
        if self.classes is None:
            return ()
        names = tuple(name.strip() for name in self.classes)
        _check_names(names)
        is_file = len(names) == 1 and Path(names[0]).expanduser().is_file()
        if len(names) == 1 and names[0].lower().endswith(".txt") and not is_file:
            raise InputError(f"classes: {names[0]}: no such file; correct the path")
        if is_file:
            from fsl.features.arrays import read_class_names  # imports torch

            names = read_class_names(Path(names[0]).expanduser())
            _check_names(names)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None or not all(names):
            problem = f"the class {twice!r} is given twice" if twice else "a name is empty"
            raise InputError(f"classes: {problem}; remove one of them")
        return names

    def check_places(self) -> None:
        """Check that the pile exists, and that the keys go together.

        Raises:
            InputError: the message names the key and the remedy.
        """
        if self.pile is None:
            raise InputError("no pile given: name a folder of pictures, a table, or a file of features")
        if not self.place.exists():
            raise InputError(f"{self.pile}: no such file or folder; give a folder of pictures, a table or features")
        ending = self.place.suffix.lower()
        if not self.is_folder and ending not in (*TABLES, *ARRAYS):
            raise InputError(f"{self.pile}: must be a folder, or end in {', '.join((*TABLES, *ARRAYS))}; convert it")
        for name, applies, what in (
            ("features", not self.is_folder, "a table or a file of features;"),
            ("show", self.is_table, f"a table ({', '.join(TABLES)});"),
            ("pictures", not self.is_folder and not self.is_table, f"a file of features ({', '.join(ARRAYS)});"),
            ("text_column", self.text_features is not None, "text_features;"),
            ("text_features", self.classes is not None, "class names; add --classes a,b,c, or"),
            ("pretrained", self.backbone is not None, "a network; add --backbone NAME, or"),
        ):
            if getattr(self, name) is not None and not applies:
                raise InputError(f"{name}= applies to {what} omit it")
        for name in ("pictures", "text_features"):
            place = getattr(self, name)
            if place is not None and not Path(place).expanduser().exists():
                raise InputError(f"{name}: {place}: no such file or folder; correct the path")
        if self.pictures is not None and not Path(self.pictures).expanduser().is_dir():
            raise InputError(f"pictures: {self.pictures}: not a folder; give the folder of the pictures")
        self._check_network()
        self.class_names()

    def _check_network(self) -> None:
        if self.backbone is None and self.is_folder:
            from runs.cache import Store
            from runs.own_data.trained_networks import networks_here

            raise InputError(
                "no network given for the pictures: add --backbone timm:NAME, --backbone open_clip:NAME "
                f"pretrained=TAG, or --backbone FILE with a checkpoint; {networks_here(Store(self.results))}"
            )
        embeds_names = (self.backbone or "").startswith(OPEN_CLIP)
        if self.backbone is not None and not self.is_folder and not embeds_names:
            raise InputError(f"backbone= applies to a folder of pictures, and {self.pile} has features; omit it")

    def result_keys(self) -> dict[str, Any]:
        """Return the keys that can change the result; the content of the pile is added separately."""
        paths = ("pile", "pictures", "text_features", "backbone", "pretrained")
        return {name: value for name, value in super().result_keys().items() if name not in paths}


def _check_names(names: tuple[str, ...]) -> None:
    wrong = next((name for name in names if len(name) > LONGEST_NAME or (name and not name.isprintable())), None)
    if wrong is not None:
        raise InputError(
            f"classes: {wrong[:40]!r}... must have 1 to {LONGEST_NAME} printable characters; choose a shorter name"
            if len(wrong) > LONGEST_NAME
            else f"classes: {wrong!r} has a character that cannot be printed; remove it"
        )


@dataclass(frozen=True, kw_only=True)
class LabelConfig(PileConfig):
    """A session of labelling on a page: `transduce label`."""

    batch: Annotated[int, AtLeast(1)] = key(10, "items to label before the whole pile is labelled anew")
    session: str | None = key(None, "name of the session; null: that of the pile. Another name begins another session")
    host: str = key(
        "127.0.0.1", "address to listen on; other addresses than 127.0.0.1 admit other machines", execution=True
    )
    port: int = key(0, "port; 0: the session's last one if it is free, else any", execution=True)

    def check_places(self) -> None:
        super().check_places()
        if not 0 <= self.port <= 65535:
            raise InputError(f"port must be between 0 and 65535, not {self.port}")


@dataclass(frozen=True, kw_only=True)
class NextConfig(PileConfig):
    """The items of a pile to label next, without a page: `transduce next`."""

    labels: str | None = key(None, "CSV file with the labels so far: a column of items, and a column label; null: none")
    n: Annotated[int, AtLeast(1)] = key(20, "number of items")

    def check_places(self) -> None:
        super().check_places()
        if self.labels is not None and not Path(self.labels).expanduser().is_file():
            raise InputError(f"labels: {self.labels}: no such file; give a CSV file, or omit it")
