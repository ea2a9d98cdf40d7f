"""Data sets of papers in files that a user provides: which files, what they hold, and how to read them. Those of
pictures are in `clustering.datasets.picture_files`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clustering.datasets.dataset import Dataset, numbered
from clustering.datasets.files import Part, arrays_of, damaged, files_of, fingerprint_of, open_bytes
from clustering.files.arrays import UNREADABLE
from clustering.foundation.errors import InputError
from clustering.foundation.parameters import AtLeast, validate
from clustering.foundation.streams import stream


@dataclass(frozen=True)
class PaperFiles:
    """A data set in files; the class attributes say which, and `_part` or `_rows` read them.

    Attributes:
        root: folder with the files.
    """

    name: ClassVar[str]
    recipe: ClassVar[int] = 1
    """Increased when the same files would give other points."""
    wanted: ClassVar[str]
    """The files in words, for messages."""
    forms: ClassVar[tuple[tuple[str, ...], ...]]
    """Alternatives, each of one .npz file with both parts, or of one file a part; plain or compressed (.gz)."""
    shape: ClassVar[tuple[int | None, int]]
    """N, None if it is not known, and D."""
    classes: ClassVar[int | tuple[str, ...]]
    """Names of the classes in the order of their numbers in the files, or how many there are."""
    picture: ClassVar[tuple[int, int] | None] = None
    channels: ClassVar[int] = 1

    root: str | None = None

    def __post_init__(self) -> None:
        validate(self)

    def source(self) -> str:
        return fingerprint_of(self.name, self.recipe, self._files())

    def read(self) -> Dataset:
        values, labels, names = self._checked()
        return Dataset(values.astype(np.float32), labels, names, picture=self.picture, channels=self.channels)

    def _files(self) -> list[Path]:
        return files_of(self.name, self.root, self.wanted, *self.forms)

    def _checked(self) -> tuple[NDArray[Any], NDArray[np.int64], tuple[str, ...]]:
        """Rows, labels and class names, whose numbers are the expected ones."""
        paths = self._files()
        try:
            values, classes = self._rows(paths)
        except UNREADABLE as error:
            raise damaged(self.name, paths[0], error) from error
        labels, names = numbered(classes)
        count = self.classes if isinstance(self.classes, int) else len(self.classes)
        points = len(values) if self.shape[0] is None else self.shape[0]
        if values.shape != (points, self.shape[1]) or classes.shape != (points,) or len(names) != count:
            expected = f"({self.shape[0] or 'N'}, {self.shape[1]}) and {'(N,)' if self.shape[0] is None else points}"
            raise InputError(
                f"dataset {self.name}: {paths[0]} has rows {values.shape}, and {classes.shape} labels of {len(names)} "
                f"classes, not {expected} of {count} classes; download it again"
            )
        return values, labels, names if isinstance(self.classes, int) else self.classes

    def _rows(self, paths: Sequence[Path]) -> Part:
        """Rows and classes from one .npz file with both parts, or from one file a part, training part first."""
        if len(paths) == 1:
            arrays = arrays_of(paths[0])
            values = np.concatenate([arrays["x_train"], arrays["x_test"]])
            return values.reshape(len(values), -1), np.concatenate([arrays["y_train"], arrays["y_test"]]).ravel()
        parts = [self._part(path) for path in paths]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([classes for _, classes in parts])

    @staticmethod
    def _part(path: Path) -> Part:
        """Lines of numbers, the last one a class."""
        table = np.loadtxt(open_bytes(path).decode().splitlines())
        return table[:, :-1], table[:, -1].astype(np.int64)


@dataclass(frozen=True)
class Shuttle(PaperFiles):
    """58,000 sensor readings of the space shuttle (Statlog, UCI), 9 integers in 7 classes of very unequal size.

    There are 45,586 / 50 / 171 / 8,903 / 3,267 / 10 / 13 points in the classes, training rows first.

    Attributes:
        root: folder with shuttle.npz, or with UCI's shuttle.trn and shuttle.tst.
    """

    name = "shuttle"
    wanted = "shuttle.npz, or UCI's shuttle.trn and shuttle.tst (unpack shuttle.trn.Z first)"
    forms = (("shuttle.npz",), ("shuttle.trn", "shuttle.tst"))
    shape = (58_000, 9)
    classes = ("Rad Flow", "Fpv Close", "Fpv Open", "High", "Bypass", "Bpv Close", "Bpv Open")


@dataclass(frozen=True)
class MAGIC(PaperFiles):
    """Particle showers in a Cherenkov telescope (UCI), 10 standardised measurements; 12,332 gammas and 6,688 hadrons.

    Attributes:
        root: folder with magic04.csv, or with UCI's magic04.data.
        balanced: whether to use as many gammas as hadrons, 13,376 points in total, as the authors of XSDC do, instead
            of all 19,020.
        seed: seed of the selection of gammas.
    """

    name = "magic"
    wanted = "magic04.csv, or UCI's magic04.data, plain or compressed (.gz)"
    forms = (("magic04.csv",), ("magic04.data",))
    shape, classes = (19_020, 10), ("gamma", "hadron")

    balanced: bool = True
    seed: Annotated[int, AtLeast(0)] = 0

    def read(self) -> Dataset:
        values, labels, names = self._checked()
        if self.balanced:
            few = int(labels.sum())
            kept = stream(self.seed, self.name).permutation(np.flatnonzero(labels == 0))[:few]
            rows = np.sort(np.concatenate([kept, np.flatnonzero(labels == 1)]))
            values, labels = values[rows], labels[rows]
        scaled = (values - values.mean(axis=0)) / values.std(axis=0)
        return Dataset(scaled.astype(np.float32), labels, names)

    def _rows(self, paths: Sequence[Path]) -> Part:
        lines = [line for line in open_bytes(paths[0]).decode().splitlines() if line.strip()]
        lines = lines[not lines[0][0].isdigit() :]  # UCI's file has no header line
        table = np.array([line.split(",") for line in lines])
        return table[:, :-1].astype(np.float64), np.char.strip(table[:, -1])


@dataclass(frozen=True)
class R8(PaperFiles):
    """7,674 news of Reuters-21578 in 8 topics of very unequal size, training part first.

    The weight of a word is 1 + log(count in the document), times its inverse document frequency over all documents.
    Rows of words are reduced to unit rows of latent components by a truncated singular value decomposition.

    Attributes:
        root: folder with r8-train.txt.gz and r8-test.txt.gz, compressed or not; a line is `topic<TAB>text`.
        min_documents: minimum number of documents that contain a word; rarer words are removed.
        stop_words: whether to remove frequent English words.
        components: number of latent components; fewer if there are fewer words.
    """

    name, recipe = "r8", 2
    wanted = "r8-train.txt.gz and r8-test.txt.gz (or r8-train-all-terms.txt and r8-test-all-terms.txt): topic<TAB>text"
    forms = tuple((f"r8-train{kind}.txt", f"r8-test{kind}.txt") for kind in ("", "-all-terms", "-stemmed"))

    min_documents: Annotated[int, AtLeast(1)] = 3
    stop_words: bool = True
    components: Annotated[int, AtLeast(2)] = 200

    def read(self) -> Dataset:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.preprocessing import normalize

        topics, texts = self._rows(self._files())
        stop_words = "english" if self.stop_words else None
        words = TfidfVectorizer(min_df=self.min_documents, stop_words=stop_words, sublinear_tf=True, dtype=np.float32)
        try:
            counted = words.fit_transform(texts)
        except ValueError as error:
            raise InputError(f"dataset r8: no word is left ({error}); lower min_documents") from error
        labels, names = numbered(topics)
        if self.components < min(counted.shape):
            values = TruncatedSVD(self.components, algorithm="arpack", random_state=0).fit_transform(counted)
        else:
            values = counted.toarray()
        return Dataset(normalize(values).astype(np.float32), labels, names)

    def _rows(self, paths: Sequence[Path]) -> Part:
        """Topics and texts."""
        rows = []
        for path in paths:
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
                rows.append((topic, text))
        topics, texts = zip(*rows, strict=True)
        return np.array(topics), np.array(texts, dtype=object)


class StoredFeatures(PaperFiles):
    """Published features that cannot be computed here: x (N, D) and y (N,) in one file STEM.npz or STEM.mat.

    Attributes:
        root: folder with the file.
    """

    @property
    def stem(self) -> str:
        """Name of the file without suffix."""
        return self.name

    def _files(self) -> list[Path]:
        files = f"{self.stem}.npz or {self.stem}.mat: {self.wanted}, as x (N, D), and y (N,)"
        return files_of(self.name, self.root, files, (f"{self.stem}.npz",), (f"{self.stem}.mat",))

    def _rows(self, paths: Sequence[Path]) -> Part:
        arrays = arrays_of(paths[0])
        values = next((key for key in ("x", "X", "data", "features", "fea", "codes") if key in arrays), None)
        classes = next((key for key in ("y", "Y", "labels", "label", "gnd", "gt", "targets") if key in arrays), None)
        if values is None or classes is None:
            listed = ", ".join(arrays) or "nothing"
            raise InputError(
                f"dataset {self.name}: {paths[0]} contains {listed}; rename the features to x and the classes to y"
            )
        return arrays[values], arrays[classes].ravel()


class MNISTCode(StoredFeatures):
    """MNIST (code): 70,000 points of 10 outputs of an auto-encoder (SpectralNet, Shaham et al. 2018), 10 classes."""

    name, shape, classes = "mnist_code", (None, 10), 10
    wanted = "codes of the auto-encoder of variational deep embedding that SpectralNet uses"


class MNISTGAN(StoredFeatures):
    """MNIST (GAN): 70,000 points of 256 features of a discriminator (Ziko, Granger and Ben Ayed 2018), 10 classes."""

    name, shape, classes = "mnist_gan", (None, 256), 10
    wanted = (
        "features of the discriminator of a GAN trained on MNIST (data/mnist_gan.npz of the authors' repository SLK)"
    )


class ReutersCode(StoredFeatures):
    """Reuters (code): 685,071 news of RCV1 as 10 outputs of an auto-encoder (Shaham et al. 2018), 4 topics."""

    name, shape, classes = "reuters_code", (None, 10), 4
    wanted = "codes of the 685,071 documents with a single root topic, by the auto-encoder of SpectralNet"


class YTF(StoredFeatures):
    """YouTube Faces (Wolf, Hassner and Maoz 2011; thesis, Table 2.1): 10,036 crops of 9,075 raw values, 40 people."""

    name, shape, classes = "ytf", (None, 9075), 40
    wanted = "10,036 faces of 40 people, 55 x 55 x 3 values each"


@dataclass(frozen=True)
class LabelMe(StoredFeatures):
    """LabelMe: 2,688 outdoor scenes of 8 types (Oliva and Torralba 2001; thesis, Table 2.1).

    Attributes:
        root: folder with labelme_alexnet.npz (or .mat) or labelme_gist.npz, which contains x (N, D) and y (N,).
        features: alexnet: 4,096 outputs of a fully connected layer; gist: 44,604 values.
    """

    name, classes = "labelme", 8

    features: Literal["alexnet", "gist"] = "alexnet"

    @property
    def shape(self) -> tuple[None, int]:  # type: ignore[override]
        return None, {"alexnet": 4096, "gist": 44_604}[self.features]

    @property
    def stem(self) -> str:
        return f"labelme_{self.features}"

    @property
    def wanted(self) -> str:  # type: ignore[override]
        return f"2,688 scenes of 8 kinds, {self.shape[1]:,} {self.features} features each"
