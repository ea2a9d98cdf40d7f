"""The configs of `transduce label` and `transduce next`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast
from runs.config.base import key
from runs.own_data.own_config import OwnConfig

TABLES = (".parquet", ".pq", ".csv", ".tsv")
ARRAYS = (".npy", ".npz", ".pt", ".safetensors")


@dataclass(frozen=True, kw_only=True)
class PileConfig(OwnConfig):
    """A pile of pictures or rows, and the strategy that labels it."""

    defaults: ClassVar[Mapping[str, str]] = {"strategy": "smoothed_ridge"}

    pile: str | None = key(None, "folder of pictures, table, or file of features")
    features: tuple[str, ...] | None = key(
        None, "column of the features in a table, columns of numbers a,b,c, or a pattern such as emb_*; null: by name"
    )
    show: tuple[str, ...] | None = key(
        None, "columns of a table to look at, a,b,c; a column of picture files is shown as pictures"
    )
    text_features: str | None = key(
        None, "file of features of the class names, one row per name, in their order; they are used as evidence"
    )
    text_column: str | None = key(None, "array or column of text_features")
    labels: str | None = key(None, "CSV file with the labels so far: a column of items, and a column label; null: none")
    selection: Literal["variance", "random", "margin"] = key(
        "variance", "how items are chosen: variance, random or margin"
    )

    @property
    def place(self) -> Path:
        """The folder or file of the pile."""
        return Path(self.pile or "").expanduser()

    @property
    def is_folder(self) -> bool:
        """Whether the pile is a folder of pictures."""
        return self.place.is_dir()

    @property
    def is_table(self) -> bool:
        """Whether the pile is a table, which has columns to look at."""
        return self.place.suffix.lower() in TABLES

    def check_places(self) -> None:
        """Check that the pile exists, and that the keys go together.

        Raises:
            InputError: the message names the key and the remedy.
        """
        if self.pile is None:
            raise InputError("no pile given: name a folder of pictures, a table, or a file of features")
        if not self.place.exists():
            raise InputError(f"{self.pile}: no such file or folder; give a folder of pictures, a table or features")
        if not self.is_folder and self.place.suffix.lower() not in (*TABLES, *ARRAYS):
            raise InputError(f"{self.pile}: must be a folder, or end in {', '.join((*TABLES, *ARRAYS))}; convert it")
        self.check_applies(
            ("features", not self.is_folder, "a table or a file of features"),
            ("show", self.is_table, f"a table ({', '.join(TABLES)})"),
            ("text_features", self.classes is not None, "class names; add --classes a,b,c"),
            ("text_column", self.text_features is not None, "text_features"),
            ("backbone", self.is_folder or self.embeds_names, "a folder of pictures, and this pile has features"),
            ("pretrained", self.backbone is not None, "a network; add --backbone NAME"),
        )
        self.check_file("text_features", "correct the path")
        self.check_file("labels", "give a CSV file, or omit it")
        if self.is_folder:
            self.check_network()
        self.class_names()


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

    n: Annotated[int, AtLeast(1)] = key(20, "number of items")
