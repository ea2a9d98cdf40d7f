"""R8: the 7,674 news of Reuters-21578 with exactly one of its eight most frequent topics, as tf-idf vectors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import damaged, fingerprint_of, first_of, folder_of, missing, open_bytes
from clustering.files.arrays import UNREADABLE
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, validate

RECIPE = 1  # increase it when the same files would give other points
WANTED = "r8-train.txt.gz and r8-test.txt.gz (or r8-train-all-terms.txt and r8-test-all-terms.txt): topic<TAB>text"
PARTS = (
    ("r8-train.txt", "r8-train-all-terms.txt", "r8-train-stemmed.txt"),
    ("r8-test.txt", "r8-test-all-terms.txt", "r8-test-stemmed.txt"),
)


@dataclass(frozen=True)
class R8:
    """7,674 documents as sparse rows of unit norm in 8 topics of very unequal size, training documents first.

    The weight of a word is 1 + log(count in the document), times its inverse document frequency over all documents.

    Attributes:
        root: folder with r8-train.txt.gz and r8-test.txt.gz, compressed or not; a line is `topic<TAB>text`.
        min_documents: minimum number of documents that contain a word; rarer words are removed.
        stop_words: whether to remove frequent English words.
    """

    name: ClassVar[str] = "r8"

    root: str | None = None
    min_documents: Annotated[int, AtLeast(1)] = 3
    stop_words: bool = True

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, RECIPE, self._files())

    def read(self) -> Dataset:
        from sklearn.feature_extraction.text import TfidfVectorizer

        topics, texts = [], []
        for path in self._files():
            try:
                lines = open_bytes(path).decode().splitlines()
            except UNREADABLE as error:
                raise damaged(self.name, path, error) from error
            if not lines:
                raise damaged(self.name, path, EOFError("it is empty"))
            for i, line in enumerate(lines, 1):
                topic, tab, text = line.partition("\t")
                if not tab:
                    raise InputError(f"dataset r8: {path}, line {i} is not topic<TAB>text; download the file again")
                topics.append(topic)
                texts.append(text)
        words = TfidfVectorizer(
            min_df=self.min_documents,
            stop_words="english" if self.stop_words else None,
            sublinear_tf=True,
            dtype=np.float32,
        )
        try:
            values = words.fit_transform(texts).tocsr()
        except ValueError as error:
            raise InputError(f"dataset r8: no word is left ({error}); lower min_documents") from error
        labels, names = numbered(np.array(topics))
        return Dataset(values, labels, names, tuple(words.get_feature_names_out()))

    def _files(self) -> list[Path]:
        folder = folder_of(self.name, self.root, WANTED)
        paths = [path for path in (first_of(folder, *names) for names in PARTS) if path]
        if len(paths) < len(PARTS):
            raise missing(self.name, folder, WANTED)
        return paths
