"""Feature banks: features of a whole split, extracted once, stored on disk and memory-mapped."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from clustering.estimator_input import check_not_vanishing
from clustering.feature_files import (
    LABELS,
    as_vector,
    label_name,
    named_arrays,
    naming,
    pick_features,
    read_features,
    read_labels,
)
from clustering.files.tensors import read_tensors, write_tensors
from clustering.foundation.errors import InputError
from fsl.benchmarks.closed_splits import check_open
from fsl.episodes import LOGIT_SCALE
from fsl.features.conversion import check_text, numbered, single, unit

FORMAT = "transduce features 1"
TENSORS = ("features", "labels", "base_mean", "told", "text")
_ROWS = 1 << 16  # rows checked at once, to limit memory for large banks


@dataclass(frozen=True, eq=False)
class FeatureBank:
    """Features of the N images of one split, from one backbone, with dimension D and K classes.

    Attributes:
        features: (N, D) float32, finite.
        labels: (N,) int64 in 0..K-1.
        class_names: K names.
        base_mean: (D,) mean feature of the base classes, which CL2N subtracts; None if unknown.
        provenance: origin of the features: fingerprints of checkpoint and images, the test-time transform, versions.
        told: (N,) bool mask of the points whose labels were used to train the backbone; None if there are none.
        text: (K, D) float32 features of the class names, from the text tower of the network; None without class names.
        logit_scale: factor of the cosines between images and class names.
        prompts: templates of the texts whose mean is `text`, such as "a photo of a {}."; empty if unknown.

    Raises:
        InputError: features are NaN or infinite, labels are out of range, or sizes do not agree.
    """

    features: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    base_mean: Tensor | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)
    told: Tensor | None = None
    text: Tensor | None = None
    logit_scale: float = LOGIT_SCALE
    prompts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count, dimension = self.features.shape if self.features.ndim == 2 else (-1, -1)
        for name, dtype, shape in (
            ("features", torch.float32, (count, dimension)),
            ("labels", torch.int64, (count,)),
            ("told", torch.bool, (count,)),
            ("base_mean", torch.float32, (dimension,)),
            ("text", torch.float32, (len(self.class_names), dimension)),
        ):
            tensor = getattr(self, name)
            if tensor is not None and (tensor.dtype != dtype or tensor.shape != shape or not tensor.numel()):
                wanted, found = (str(kind).removeprefix("torch.") for kind in (dtype, tensor.dtype))
                sides = "(N, D)" if name == "features" else shape
                raise InputError(
                    f"feature bank: {name} must be {wanted} of shape {sides}, not {found} of shape "
                    f"{tuple(tensor.shape)}"
                )
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= len(self.class_names):
            raise InputError(
                f"feature bank: labels run from {low} to {high}, but there are {len(self.class_names)} class names"
            )
        if self.text is not None:
            bad = ~self.text.square().sum(dim=1).isfinite() | (self.text == 0).all(dim=1)
            if bad.any():
                name = self.class_names[int(bad.nonzero()[0])]
                raise InputError(
                    f"feature bank: the text feature of class {name!r} is zero, NaN, infinite, or too large"
                )
            if not 0 < self.logit_scale < math.inf:
                raise InputError(f"feature bank: logit_scale must be positive and finite, not {self.logit_scale!r}")
        if self.base_mean is not None and not self.base_mean.square().sum().isfinite():
            raise InputError("feature bank: NaN or infinite values in base_mean, or too large to be squared")
        for first, part in enumerate(torch.split(self.features, _ROWS)):
            finite = part.square().sum(dim=1).isfinite()
            if not finite.all():
                row = first * _ROWS + int((~finite).nonzero()[0])
                raise InputError(
                    f"feature bank: NaN or infinite values in features, or too large to be squared: row {row}"
                )

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        labels: Any = None,
        *,
        class_names: Sequence[str] | None = None,
        text: Any = None,
        logit_scale: float = LOGIT_SCALE,
        base_mean: ArrayLike | None = None,
        column: str | None = None,
        label_column: str | None = None,
        provenance: Mapping[str, str] | None = None,
        prompts: Sequence[str] = (),
    ) -> "FeatureBank":
        """A feature bank of arrays in memory, or of those that `fsl.features.import_features` reads from files.

        Classes are numbered in the order of the labels; with class names, labels are their indices, or the names
        themselves. With text, rows of images and texts are first scaled to unit length in their own precision, and
        classes without images are kept.

        Args:
            features: (N, D) array of NumPy or tensor; or a frame of pandas or table of Arrow with a column of lists, or
                columns of floats.
            labels: (N,) integers or names; None: a column of `features`.
            text: (K, D) features of the class names, in the forms of `features`.
            column, label_column: columns of features and labels; None: chosen by name. For columns of numbers `column`
                may be a pattern, such as "emb_*".
            class_names, logit_scale, base_mean, provenance, prompts: see the class.

        Raises:
            InputError: the arrays do not fit each other, contain other values than needed, or a column is missing or
                not unique.
        """
        with naming("features"):
            arrays = named_arrays(features)
            own = label_name(arrays, LABELS, label_column, "label_column") if arrays.table and labels is None else None
            rows = pick_features(arrays, column, label=own)
            labels = labels if own is None else arrays.read([own])[own]
        words = None if text is None else read_features(text, name="text")
        numbers, names = numbered(
            None if labels is None else read_labels(labels),
            len(rows),
            None if class_names is None else tuple(map(str, class_names)),
            None if words is None else len(words),
        )
        if rows.dtype.kind == "f":
            check_not_vanishing(float(np.abs(rows).max()), np.float32)
        if words is not None:
            check_text(rows, words, len(names))
            rows, words = unit(rows), unit(words)
        parts: dict[str, Any] = {"features": rows, "text": words}
        parts["base_mean"] = None if base_mean is None else as_vector(base_mean, "base_mean")
        scale = as_vector(logit_scale, "logit_scale")
        if scale.size != 1:
            raise InputError(f"logit_scale must be one number, not an array of shape {scale.shape}")
        return cls(
            labels=torch.from_numpy(numbers),
            class_names=names,
            provenance=dict(provenance or {}),
            logit_scale=float(scale.item()),
            prompts=tuple(prompts),
            **{name: single(part) for name, part in parts.items() if part is not None},
        )

    @property
    def dimension(self) -> int:
        """D, the number of features."""
        return self.features.shape[1]

    def fingerprint(self) -> str:
        """Hash of all values and names in the bank, but not of its provenance: 16 hexadecimal digits."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(json.dumps([list(self.features.shape), *self.class_names]).encode())
        for tensor in (self.features, self.labels, self.base_mean):
            digest.update(b"none" if tensor is None else tensor.contiguous().numpy().data)
        if self.text is not None:
            digest.update(repr(self.logit_scale).encode())
            digest.update(self.text.contiguous().numpy().data)
        return digest.hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Write the bank to a safetensors file. The file is replaced atomically."""
        tensors = {name: getattr(self, name) for name in TENSORS if getattr(self, name) is not None}
        header = {
            "format": FORMAT,
            "class_names": json.dumps(self.class_names),
            "provenance": json.dumps(dict(self.provenance), sort_keys=True),
        }
        if self.text is not None:
            header |= {"logit_scale": repr(self.logit_scale), "prompts": json.dumps(self.prompts)}
        write_tensors(path, tensors, header)

    @classmethod
    def load(cls, path: Path, remedy: str = "remove it, so that the features are extracted again") -> "FeatureBank":
        """Read and check a bank. Its tensors are memory-mapped.

        Args:
            path: the file.
            remedy: advice for the error message about an invalid file.

        Raises:
            InputError: the file is missing, truncated, of another format or invalid; the message names the file.
            ClosedSplitError: the bank belongs to a closed split, see `fsl.benchmarks.closed_splits`.
        """
        path = Path(path)
        tensors, header = read_tensors(path, FORMAT, remedy)
        try:
            bank = cls(
                class_names=tuple(json.loads(header["class_names"])),
                provenance=dict(json.loads(header["provenance"])),
                logit_scale=float(header.get("logit_scale", LOGIT_SCALE)),
                prompts=tuple(json.loads(header.get("prompts", "[]"))),
                **{name: tensors[name] for name in TENSORS if name in tensors or name in TENSORS[:2]},
            )
        except InputError as error:
            raise InputError(f"{path}: {error}; {remedy}") from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            problem = f"not a feature bank, because it lacks {error}" if isinstance(error, KeyError) else error
            raise InputError(f"{path}: damaged ({problem}); {remedy}") from error
        check_open(str(bank.provenance.get("split", "")))
        return bank
