"""Episodes: a batch of few-shot tasks as feature tensors, the only input of a strategy."""

from dataclasses import dataclass, replace
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, get_args

import torch
from torch import Tensor

from clustering.foundation.errors import InputError
from clustering.lengths import vanishing
from clustering.optimiser.points import Features, Gram, Points
from fsl.transforms import Transform, transform_features, unit_features

if TYPE_CHECKING:
    from fsl.features.pictures import TaskPictures

LOGIT_SCALE = 100.0
"""Factor of the cosines between images and class names in CLIP."""

TextUse = Literal["none", "optional", "required"]
"""Whether a strategy uses class names (or other class probabilities of the queries)."""

_SMALLEST = 1e-30
"""Lower bound of given class probabilities, so that their logarithms are finite."""

NAME_WEIGHT = 0.1
"""Weight of the class names relative to the squared distance to a single labelled example, for unit vectors. It was
chosen on WHU-RS19 with CLIP ViT-B/32 and GeoRSCLIP, for 1 to 10 shots."""

LARGEST_GRAM = 1024
"""Maximum number of points per task for which inner products are used instead of features."""


def check_base_mean(mean: Tensor) -> None:
    """Raise InputError if a base mean (D,) has values that are not finite or whose squares overflow."""
    if not bool(mean.isfinite().all()):
        raise InputError("base_mean is NaN or infinite")
    if float(mean.abs().max()) > torch.finfo(mean.dtype).max ** 0.5 / 4e4:
        raise InputError(f"base_mean has values whose squares exceed {mean.dtype}; give the mean of the raw features")


_NOT_TENSORS = ("way", "transform", "trusted", "pictures", "logit_scale")


class Predictions(NamedTuple):
    """The result of a strategy for B tasks.

    Attributes:
        probabilities: (B, Q, K) class probabilities, rows sum to one. The predicted class is the argmax; ties go to the
            lowest index.
        iterations: (B,) int64 number of steps; None for a closed form.
        trace: (T, B) objective after each step, NaN after a task has stopped; None without an objective.
    """

    probabilities: Tensor
    iterations: Tensor | None = None
    trace: Tensor | None = None

    @property
    def labels(self) -> Tensor:
        """(B, Q) predicted class, 0..K-1."""
        return self.probabilities.max(dim=-1).indices  # like argmax, but many times faster for few classes


@dataclass(frozen=True, eq=False)
class Episodes:
    """A batch of B tasks. Query labels are not included, so strategies cannot read them.

    With the features of class names (`text`), or class probabilities from any other model (`prior`), classes may be
    without support examples, and S may be 0: the task is then zero-shot.

    Attributes:
        support: (B, S, D) features.
        support_labels: (B, S) int64 in 0..way-1.
        query: (B, Q, D) features.
        way: number of classes K; 1 is allowed.
        support_mask: (B, S) bool, False for padding (unequal shots); None without padding.
        query_mask: (B, Q) bool, False for padding; None without padding.
        base_mean: (D,) mean of the raw base-class features, which CL2N subtracts.
        transform: the per-feature transform already applied to the features.
        trusted: skip the checks, for features that were checked when they were loaded.
        pictures: the images of the features and their network; None if only features are available.
        text: (B, K, D) raw features of the class names, from the text tower of the network.
        logit_scale: factor of the cosines between images and class names, > 0.
        prior: (B, Q, K) class probabilities of the queries, which replace those of `text`.

    Raises:
        InputError: shapes do not agree, labels are outside 0..way-1, a class has no support and there is neither text
            nor prior, a task has no query, or features are NaN, infinite or huge (the message names the first such
            task and row).
    """

    support: Tensor
    support_labels: Tensor
    query: Tensor
    way: int
    support_mask: Tensor | None = None
    query_mask: Tensor | None = None
    base_mean: Tensor | None = None
    transform: Transform = "UN"
    trusted: bool = False
    pictures: "TaskPictures | None" = None
    text: Tensor | None = None
    logit_scale: float = LOGIT_SCALE
    prior: Tensor | None = None

    def __post_init__(self) -> None:
        if not self.trusted:
            self._check_shapes()
            self._check_labels()
            self._check_values()
            self._check_prior()

    def transformed(self, transform: Transform) -> "Episodes":
        """The episodes with the transform applied to support and query; the same object if it is already applied."""
        if transform == self.transform:
            return self
        if self.transform != "UN":
            raise InputError(f"{self.transform} is already applied to the features; {transform} needs raw features")
        made = replace(
            self,
            support=transform_features(self.support, transform, self.base_mean),
            query=transform_features(self.query, transform, self.base_mean),
            transform=transform,
            trusted=True,
        )
        return made.knowing(log_prior=self.log_prior) if self.named else made  # from the raw features

    def knowing(self, **computed: Tensor) -> "Episodes":
        """The same object with properties that are computed already: `features`, or `log_prior`."""
        vars(self).update(computed)
        return self

    def with_prior(self, prior: Tensor) -> "Episodes":
        """The episodes with (B, Q, K) class probabilities of the queries in place of those by class names."""
        return replace(self, prior=prior, trusted=True)

    @property
    def named(self) -> bool:
        """Whether there are class names or class probabilities of the queries."""
        return self.text is not None or self.prior is not None

    @cached_property
    def log_prior(self) -> Tensor:
        """(B, Q, K) logarithms of the class probabilities of the queries without any support: those of `prior`, or
        softmax_k(logit_scale cos(x_q, t_k)) with the features t_k of the class names."""
        if self.prior is not None:
            return self.prior.clamp_min(_SMALLEST).log()
        if self.text is None:
            raise InputError("there are no class names; give text (B, K, D) or prior (B, Q, K)")
        cosines = torch.bmm(unit_features(self.query), unit_features(self.text).mT)
        return torch.log_softmax(self.logit_scale * cosines, dim=2)

    def with_text(self, cost: Tensor, weight: float | None, beta: float = 1.0) -> Tensor:
        """Add the evidence of the class names to a cost.

        Args:
            cost: (B, Q, K) costs of the queries.
            weight: weight of -log_prior, >= 0. None: min(1, 0.1 beta / n) with n labelled examples per class, since
                prototypes improve with n.
            beta: factor of the squared distances in the cost.

        Returns:
            (B, Q, K) cost - weight log_prior; `cost` itself if there are no class names or the weight is 0.
        """
        if not self.named or weight == 0:
            return cost
        evidence = self.log_prior if self.query_mask is None else self.log_prior * self.query_mask[..., None]
        if weight is None:
            shots = self.support_one_hot.sum((1, 2))[:, None, None] / self.way
            return cost - (NAME_WEIGHT * beta / shots).clamp_max(1) * evidence
        return torch.sub(cost, evidence, alpha=weight)

    @cached_property
    def features(self) -> Tensor:
        """(B, S + Q, D) support and query features, support first."""
        return torch.cat([self.support, self.query], dim=1)

    @cached_property
    def points(self) -> Points:
        """Support and query, support first; as inner products (see `Gram`) if that is cheaper."""
        return points_of(self.features)

    @property
    def support_size(self) -> int:
        """S, padding included."""
        return self.support_labels.shape[1]

    @property
    def query_size(self) -> int:
        """Q, padding included."""
        return self.query.shape[1]

    @cached_property
    def shots(self) -> Tensor:
        """(B, 1, 1) mean number of support examples per class; at least 1, since a class name counts as an example."""
        return (self.support_one_hot.sum((1, 2))[:, None, None] / self.way).clamp_min(1)

    @cached_property
    def labelled(self) -> Tensor:
        """(B, 1, 1) bool, whether a task has any support example; a batch may contain tasks with and without."""
        return self.support_one_hot.any(dim=2).any(dim=1)[:, None, None]

    @property
    def dimension(self) -> int:
        """D, the number of features."""
        return self.support.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the features."""
        return self.support.dtype

    @cached_property
    def shifted_points(self) -> Points:
        """The points with every query shifted by mean(support) - mean(query): the cross-class shift of LaplacianShot
        (thesis section 4.3.4). It assumes equal class proportions in support and query. Tasks without support are not
        shifted."""
        return self.points.moved(self.query_counts, self.shift_step[:, 0])

    @cached_property
    def shift_step(self) -> Tensor:
        """(B, 1, S + Q) coefficients of the shift mean(support) - mean(query) over the points."""
        support, query = self.valid.to(self.dtype).tensor_split([self.support_size], dim=1)
        count = support.sum(1, keepdim=True)
        step = torch.cat([support / count.clamp_min(1), (count > 0) * -query / query.sum(1, keepdim=True)], dim=1)
        return step[:, None]

    def unshifted(self, coefficients: Tensor) -> Tensor:
        """Convert (B, K, S + Q) coefficients over the shifted points to coefficients over the unshifted points, using
        that the shift is itself a linear combination of points."""
        mass = coefficients[:, :, self.support_size :].sum(dim=2, keepdim=True)
        return torch.addcmul(coefficients, mass, self.shift_step)

    @cached_property
    def class_means(self) -> Tensor:
        """(B, K, S + Q) coefficients of the support means over the points. The mean of a class without support is that
        of the queries, weighted by their probability of this class given its name."""
        means = self.support_one_hot.mT
        counts = means.sum(dim=2, keepdim=True)
        means = means / (counts.clamp_min(1) if self.named else counts)
        queries = means.new_zeros(*means.shape[:2], self.query_size)
        if self.named and not bool(counts.all()):
            padded = ~self.valid[:, None, self.support_size :]
            likely = torch.softmax(self.log_prior.mT.masked_fill(padded, -torch.inf), dim=2)
            queries = torch.where(counts == 0, likely, queries)
        return torch.cat([means, queries], dim=2)

    @property
    def valid(self) -> Tensor:
        """(B, S + Q) bool, False in padded rows."""
        real = torch.ones(1, 1, dtype=torch.bool, device=self.support_labels.device)
        support = real.expand_as(self.support_labels) if self.support_mask is None else self.support_mask
        query = real.expand(self.query.shape[:2]) if self.query_mask is None else self.query_mask
        return torch.cat([support, query], dim=1)

    @cached_property
    def mask(self) -> Tensor | None:
        """`valid`, or None if no row is padded."""
        return None if bool(self.valid.all()) else self.valid

    @property
    def query_counts(self) -> Tensor:
        """(B, S + Q) 1 for queries, 0 for the support and for padding, of the features' dtype."""
        counts = self.valid.to(self.dtype)
        counts[:, : self.support_size] = 0
        return counts

    @property
    def padding(self) -> tuple[Tensor, Tensor] | None:
        """Padded queries as the argument `clamp` of `descend`: fixed to class 0, where they have cost 0."""
        if self.query_mask is None:
            return None
        return ~self.query_mask, torch.zeros_like(self.query_mask, dtype=torch.int64)

    @property
    def known(self) -> tuple[Tensor, Tensor]:
        """Support points with their class, and padding, as the argument `clamp` of `descend` for all S + Q points."""
        fixed = ~self.valid
        fixed[:, : self.support_size] = True
        unknown = self.support_labels.new_zeros(len(fixed), self.query_size)
        return fixed, torch.cat([self.support_labels, unknown], dim=1)

    @cached_property
    def support_one_hot(self) -> Tensor:
        """(B, S, K) one-hot support labels, zero in padded rows, of the features' dtype."""
        classes = torch.arange(self.way, device=self.support_labels.device)
        one_hot = self.support_labels[..., None] == classes
        if self.support_mask is not None:
            one_hot = one_hot & self.support_mask[..., None]
        return one_hot.to(self.dtype)

    def _check_values(self) -> None:
        for name in ("support", "query", "text"):
            features: Tensor | None = getattr(self, name)
            if features is None:
                continue
            bad = ~features.square().sum(dim=-1).isfinite()  # also true for values whose squares overflow
            if name == "text":
                bad |= (features == 0).all(dim=-1)
            if bad.any():
                task, row = (int(i) for i in bad.nonzero()[0])
                reason = "zero, " if name == "text" else ""
                raise InputError(
                    f"{name} of task {task}, row {row}, is {reason}NaN, infinite, or too large to be squared"
                )
        parts = [part.abs().flatten(1).amax(dim=1) for part in (self.support, self.query) if part.numel()]
        sizes = torch.stack(parts).amax(dim=0) if parts else self.support.new_zeros(1)
        faint = (sizes > 0) & (sizes < vanishing(self.dtype))
        if faint.any():
            raise InputError(
                f"features of task {int(faint.nonzero()[0])} are too small: their squares underflow in {self.dtype}; "
                "rescale them"
            )
        if self.base_mean is not None:
            check_base_mean(self.base_mean)

    def _check_shapes(self) -> None:
        for name, tensor in vars(self).items():
            if name not in _NOT_TENSORS and not isinstance(tensor, (Tensor, NoneType)):
                raise InputError(
                    f"{name} must be a torch tensor, not {type(tensor).__name__}; convert with torch.from_numpy"
                )
        if self.support.dim() != 3 or self.query.dim() != 3:
            raise InputError(
                f"support and query must be (B, S, D) and (B, Q, D), not {tuple(self.support.shape)} and "
                f"{tuple(self.query.shape)}; add a leading dimension for a single task"
            )
        if self.support.dtype not in (torch.float32, torch.float64) or self.query.dtype != self.support.dtype:
            raise InputError(
                f"features must all be float32, or all float64: support is {self.support.dtype}, query "
                f"{self.query.dtype}; convert with .float()"
            )
        (tasks, queries, dimension), shots, kind = self.query.shape, self.support.shape[1], self.query.dtype
        wanted = {
            "support": (kind, (tasks, shots, dimension)),
            "support_labels": (torch.int64, (tasks, shots)),
            "support_mask": (torch.bool, (tasks, shots)),
            "query_mask": (torch.bool, (tasks, queries)),
            "base_mean": (getattr(self.base_mean, "dtype", None), (dimension,)),
            "text": (kind, (tasks, self.way, dimension)),
            "prior": (kind, (tasks, queries, self.way)),
        }
        for name, (dtype, shape) in wanted.items():
            tensor = getattr(self, name)
            if tensor is not None and (tensor.dtype, tuple(tensor.shape)) != (dtype, shape):
                raise InputError(
                    f"{name} must be {dtype} of shape {shape}, to agree with query of shape {tuple(self.query.shape)} "
                    f"and way={self.way}, not {tensor.dtype} of shape {tuple(tensor.shape)}"
                )
        sizes = {"tasks (B)": tasks, "support examples (S)": shots, "queries (Q)": queries}
        for size_of, size in sizes.items():
            if size == 0 and not (self.named and size_of.startswith("support")):
                raise InputError(f"the number of {size_of} is 0; it must be at least 1")
        if self.query_mask is not None and not bool(self.query_mask.any(dim=1).all()):
            task = int((~self.query_mask.any(dim=1)).nonzero()[0])
            raise InputError(f"task {task} has no query: all of them are masked")
        if self.pictures is not None and tuple(self.pictures.rows.shape) != (tasks, shots + queries):
            rows = tuple(self.pictures.rows.shape)
            raise InputError(f"pictures must have rows of shape {(tasks, shots + queries)}, not {rows}")

    def _check_labels(self) -> None:
        if self.way < 1:
            raise InputError(f"way must be at least 1, not {self.way}")
        labels = self.support_labels
        if labels.numel() and (labels.min() < 0 or labels.max() >= self.way):
            raise InputError(
                f"support labels must be 0..{self.way - 1}, found {int(labels.min())}..{int(labels.max())}"
            )
        without = self.support_one_hot.sum(dim=1) == 0
        if without.any() and not self.named:
            task, label = (int(i) for i in without.nonzero()[0])
            raise InputError(
                f"class {label} of task {task} has no support example; lower way, add examples, or give text (features "
                "of the class names)"
            )

    def _check_prior(self) -> None:
        if not 0 < self.logit_scale < torch.inf:
            raise InputError(f"logit_scale must be positive and finite, not {self.logit_scale!r}; CLIP's is 100")
        if self.prior is not None:
            bad = ~((self.prior.amin(2) >= 0) & ((self.prior.sum(2) - 1).abs() <= 1e-3))  # also true for NaN
            if self.query_mask is not None:
                bad = bad & self.query_mask
            if bad.any():
                task, row = (int(i) for i in bad.nonzero()[0])
                raise InputError(
                    f"prior of task {task}, query {row}: class probabilities must be at least 0 and sum to 1"
                )


def points_of(features: Tensor) -> Points:
    """Points given by features (B, M, D), as their inner products if there are few."""
    if features.shape[1] > LARGEST_GRAM:
        return Features(features)
    return Gram(torch.bmm(features, features.mT))


class Strategy(Protocol):
    """A few-shot strategy: a frozen dataclass whose fields are its hyper-parameters and its config schema.

    Episodes are shared between strategies: `predict` must not change them, and may be called from several threads at
    once.

    Attributes:
        transductive: whether the prediction of a query may depend on the other queries; the shared tests check it.
        assumes_balance: whether the strategy assumes the same number of queries in each class.
        text: whether the strategy uses class names: "none", "optional" or "required". A strategy without this
            attribute uses none.
    """

    transductive: ClassVar[bool]
    assumes_balance: ClassVar[bool]

    @property
    def transform(self) -> Transform:
        """The per-feature transform that the strategy requires."""
        ...

    def predict(self, episodes: Episodes) -> Predictions:
        """Class probabilities of every query of a batch of tasks."""
        ...


EXAMPLE = "tests/templates/strategy.py in the source of transduce, and the section 'Add a part' of CONTRIBUTING.md"


def check_strategy(name: str, strategy: object) -> None:
    """Check that an object is a strategy, whether it is part of this project or a plug-in.

    Args:
        name: name of the strategy in messages.

    Raises:
        InputError: something is missing; the message names all of it, and an example.
    """
    missing = [] if callable(getattr(strategy, "predict", None)) else ["a method predict(self, episodes)"]
    if getattr(strategy, "transform", None) not in get_args(Transform):
        missing.append(f"a field transform, one of {', '.join(get_args(Transform))}")
    for variable, meaning in (
        ("transductive", "may a prediction depend on the other queries?"),
        ("assumes_balance", "does it assume equally many queries of each class?"),
    ):
        if not isinstance(getattr(strategy, variable, None), bool):
            missing.append(f"{variable}: ClassVar[bool] = True or False ({meaning})")
    if isinstance(strategy, type):
        missing = [f"its parentheses: an object, {strategy.__name__}(), not the class"]
    if missing:
        raise InputError(f"strategy {name} lacks {'; '.join(missing)}. A complete one is {EXAMPLE}")


def check_evidence(strategy: Strategy, episodes: Episodes) -> None:
    """Check that there are class names or support examples, as the strategy requires.

    Raises:
        InputError: the strategy requires class names and there are none, or it does not use them and a class has no
            support example.
    """
    use: TextUse = getattr(strategy, "text", "none")
    if use == "required" and not episodes.named:
        raise InputError(
            "requires class names: give text, the features of the class names, or prior, class probabilities of the "
            "queries"
        )
    if (use == "none" or not episodes.named) and bool((episodes.support_one_hot.sum(dim=1) == 0).any()):
        if use == "none":
            raise InputError(
                "does not use class names, and a class has no labelled example; add examples of each class, or use a "
                "strategy with class names, such as zero_shot or laplacianshot"
            )
        raise InputError(
            "a class has no labelled example, and there are no class names; add examples of each class (shot of the "
            "sampler), or use features with text"
        )
