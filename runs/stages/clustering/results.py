"""One clustered config: all trials with their labels, the chosen trial, and the file that stores them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.evaluation.protocol import ACCURACY, SCORES, lowest
from clustering.files.arrays import read_arrays
from clustering.number_of_clusters import NumberOfClusters
from runs.config.cluster import ClusterConfig
from runs.stages.points import ClusteringResult, check_labels

if TYPE_CHECKING:
    from clustering.evaluation.known_labels import KnownLabels

TRIALS = "trials.npz"
PHASES = ("graph", "seeding", "optimise")


@dataclass(frozen=True, eq=False, kw_only=True)
class Trials:
    """T clusterings of N points.

    Attributes:
        confidence, mode_indices, mode_movements, eigengaps: of the chosen trial, None if the method does not
            report it: (N,) largest assignment of every point; (K,) rows that are the prototypes, -1 for a
            prototype that is no row; (updates, K) distance moved by each prototype in each update; (steps,) gap
            of eigenvalues at each step, see `clustering.deep.xsdc.discriminative.eigengap`.
    """

    settings: tuple[Mapping[str, Any], ...]  # parameters by name; the first is {}, the parameters of the config
    setting: NDArray[np.int64]  # (T,) index into `settings`
    start: NDArray[np.int64]  # (T,) index of the seed
    seeds: NDArray[np.int64]  # (T,) random_state
    given: NDArray[np.bool_]  # (T,) whether the trial is a start at the parameters of the config
    tried: NDArray[np.bool_]  # (T,) whether labels can select the trial
    labels: NDArray[Any]  # (T, N) clusters
    objective: NDArray[np.float64]  # (T,) objective minimised by the method
    # (T,) value by which the method chooses among starts; the objective if it has no other
    criterion: NDArray[np.float64]
    clusters: NDArray[np.int64]  # (T,) number of clusters with points
    iterations: NDArray[np.int64]  # (T,) number of iterations
    seconds: NDArray[np.float64]  # (T, 3) seconds of graph, seeding and optimisation
    # (T,) by name, on all points whose labels were not given to the method; empty if the classes are unknown
    scores: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    # (T,) by name, on the points whose labels are not used for selection
    held_out: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    # (T,) accuracy on the points whose labels are used for selection; None without selection
    validation: NDArray[np.float64] | None = None
    confidence: NDArray[np.float32] | None = None
    contrasts: NDArray[np.float64] | None = None  # (M,) of 1..M clusters, by which n_clusters=auto chose their number
    mode_indices: NDArray[np.int64] | None = None
    mode_movements: NDArray[np.float64] | None = None
    eigengaps: NDArray[np.float64] | None = None
    # (n, 2) t-SNE map of the learned features of some points; None unless the config asks for it
    feature_map: NDArray[np.float32] | None = None
    # (n,) class of each point of the map; None if the classes are unknown
    mapped_classes: NDArray[np.int64] | None = None

    @property
    def chosen(self) -> int:
        """Index of the trial chosen without labels: the best start at the parameters of the config by the criterion."""
        among = np.flatnonzero(self.given)
        criterion, objective, clusters = self.criterion[among], self.objective[among], self.clusters[among]
        return int(among[lowest(criterion, objective, clusters, self.labels.shape[1])])

    @property
    def selected(self) -> int | None:
        """Index of the trial selected by labels, as in the papers; None without selection."""
        if self.validation is None:
            return None
        among = np.flatnonzero(self.tried)
        return int(among[np.argmax(self.validation[among])])

    def metrics(self) -> dict[str, float]:
        """Return values by their names in the record: without suffix for the trial chosen without labels,
        `_label_selected` for the trial selected by labels, `_mean` and `_std` (NaN for one start) over the starts."""
        spread: dict[str, NDArray[np.float64]] = {**self.scores, "objective": self.objective}
        found: dict[str, float] = {}
        for name, values in spread.items():
            starts = values[self.given]
            found[name] = float(values[self.chosen])
            found[f"{name}_mean"] = float(starts.mean())
            found[f"{name}_std"] = float(starts.std(ddof=1)) if len(starts) > 1 else np.nan
        if self.selected is not None and self.validation is not None:
            for name, values in self.held_out.items():
                found[f"{name}_label_selected"] = float(values[self.selected])
            found["acc_hungarian_validation"] = float(self.validation[self.selected])
        for phase, values in zip(PHASES, self.seconds[self.given].T, strict=True):
            found[f"seconds_{phase}"] = float(values.mean())
        found["iterations_mean"] = float(self.iterations[self.given].mean())
        found["clusters_found"] = float(self.clusters[self.chosen])
        return found

    def save(self, path: Path) -> None:
        """Write the trials to a compressed .npz file."""
        arrays: dict[str, Any] = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        arrays["settings"] = np.array(json.dumps(self.settings))
        for part in ("scores", "held_out"):
            arrays |= {f"{part}_{name}": values for name, values in getattr(self, part).items()}
        np.savez_compressed(path, **arrays)

    @classmethod
    def load(cls, path: Path) -> "Trials":
        """Read a file written by `save`. A damaged file raises the errors of zipfile, numpy or a dataclass."""
        known = read_arrays(path)
        given: dict[str, Any] = {own.name: known[own.name] for own in fields(cls) if own.name in known}
        given["settings"] = tuple(json.loads(str(known["settings"])))
        for part in ("scores", "held_out"):
            given[part] = {name: known[f"{part}_{name}"] for name in (*SCORES, ACCURACY) if f"{part}_{name}" in known}
        found = cls(**given)
        check_labels(found.labels)
        found.metrics()  # reads every field, and so raises if one is damaged
        return found


@dataclass(frozen=True, eq=False)
class Clustered(ClusteringResult):
    """One config with its trials."""

    config: ClusterConfig
    trials: Trials

    @property
    def found_number(self) -> NumberOfClusters | None:
        """The number of clusters that n_clusters=auto found; None if it was given."""
        contrasts = self.trials.contrasts
        return None if contrasts is None else NumberOfClusters(int(contrasts.argmax()) + 1, contrasts)


def named_clusters(labels: NDArray[np.int64], known: "KnownLabels | None") -> NDArray[Any]:
    """Return the (N,) clusters by name of their class; a cluster without known class, by number.

    Without known labels, all clusters are returned by number.
    """
    if known is None:
        return labels
    names = known.class_names
    return np.array([names[k] if 0 <= k < len(names) else str(k) for k in labels.tolist()], dtype=np.str_)
