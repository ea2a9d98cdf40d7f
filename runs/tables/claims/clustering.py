"""What the papers claim of clustering, checked on the results of a table.

The papers selected each number by labels, and so a claim is checked on what labels select where the runs have it, with
what they have without labels as evidence beside it. A difference that two printed digits could not show is a tie.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runs.config.configs import ClusterConfig
from runs.stages.clustering.results import TRIALS, Trials, recorded_trials
from runs.tables.claims import entropy as entropy_claims
from runs.tables.claims.clustering_claim import Cells, Claim, checked
from runs.tables.claims.few_shot import Finding, Status
from runs.tables.table import Cell, SeedResult, Table

if TYPE_CHECKING:
    from runs.record.tracking import Tracker

SHOWN = 0.005
"""Differences of NMI and accuracy below this are ties."""
FEW = 5
"""Updates of the modes that the papers need at most."""
AGREE = 0.03
"""NMI within which the variants of SLK are alike."""

SLK = ("slk_mean_shift", "slk_byproduct", "slk_means")
RIVALS = ("kmeans", "kmodes", "ncut", "kernel_kmeans", "lk")
Check = Callable[["Results"], Iterator[tuple[Status, str]]]


@dataclass(frozen=True)
class Results:
    """The filled cells of one data set.

    Attributes:
        dataset: its name.
        cells: by metric and method.
        read: the trials of a run.
    """

    dataset: str
    cells: Cells
    read: Callable[[SeedResult], Trials | None]

    def value(self, metric: str, method: str) -> float | None:
        """As the papers scored it; without that, as it was found."""
        cell = self.cells.get(metric, {}).get(method)
        if cell is None:
            return None
        return cell.as_printed if cell.scored else cell.value

    def pair(self, metric: str, first: str, second: str) -> tuple[float, float] | None:
        """The values of two methods, where there are both."""
        values = self.value(metric, first), self.value(metric, second)
        return None if values[0] is None or values[1] is None else (values[0], values[1])

    def plain(self, metric: str, method: str) -> float:
        """Without labels."""
        return self.cells[metric][method].value

    def trials(self, method: str) -> list[Trials]:
        """Of every seed, where the record has them."""
        found = [cells[method] for cells in self.cells.values() if method in cells]
        read = [self.read(result) for result in (found[0].results if found else ())]
        return [trials for trials in read if trials is not None]


def check(table: Table, tracker: "Tracker") -> list[Finding]:
    """The claims on the clusterings of a table, see `clustering_claim.checked`."""
    known: dict[str, Trials | None] = {}

    def read(result: SeedResult) -> Trials | None:
        if result.run_id not in known:
            try:
                known[result.run_id] = recorded_trials(tracker, result.run_id, result.artifacts)
            except ValueError as error:
                known[result.run_id] = None
                tracker.say(f"{TRIALS} of run {result.run_id} is no longer whole ({error}): no claim is checked on it")
        return known[result.run_id]

    return checked(table, CLAIMS, _place, lambda dataset, cells: Results(dataset, cells, read))


def _place(cell: Cell) -> tuple[str, str] | None:
    config = cell.clustering
    return (_name(config), _method(config)) if config is not None else None


def _name(config: ClusterConfig) -> str:
    """A data set, with what tells its variants apart, and the labels that are known."""
    options = config.dataset.options
    classes = options.get("classes")
    told = options.get("features") or (f"{classes} classes" if isinstance(classes, int) else "")
    labels = f", {config.labels} labels" if config.asked_labels() is not None else ""
    return f"{config.dataset.name}{f' ({told})' if told else ''}{labels}"


def _method(config: ClusterConfig) -> str:
    """A method, with the order of its entropy."""
    order = config.method.options.get("order", 1)
    return entropy_claims.of_order(order) if config.method.name == "migd" else config.method.name


def _judge(difference: float, margin: float = 0.0) -> Status:
    if abs(difference - margin) <= SHOWN:
        return "tie"
    return "holds" if difference > margin else "fails"


def _higher(metric: str, better: str, than: str, margin: float = 0.0) -> Check:
    def look(results: Results) -> Iterator[tuple[Status, str]]:
        pair = results.pair(metric, better, than)
        if pair is not None:
            without = f"without labels {results.plain(metric, better):.3f} and {results.plain(metric, than):.3f}"
            at_least = f", of which {margin} is claimed" if margin else ""
            evidence = f"{better} {pair[0]:.3f}, {than} {pair[1]:.3f}: {pair[0] - pair[1]:+.3f}{at_least}; {without}"
            yield _judge(pair[0] - pair[1], margin), evidence

    return look


def _faster(results: Results) -> Iterator[tuple[Status, str]]:
    pair = results.pair("seconds_optimise", "slk_mean_shift", "slk_byproduct")
    if pair is not None:
        yield (
            "holds" if pair[1] < pair[0] else "fails",
            f"{pair[0]:.3g} s and {pair[1]:.3g} s: {pair[0] / pair[1]:.1f} times",
        )


def _lower(results: Results) -> Iterator[tuple[Status, str]]:
    pair = results.pair("objective", "lk", "slk_mean_shift")
    if pair is not None:
        yield "holds" if pair[1] <= pair[0] else "fails", f"LK {pair[0]:.6g}, SLK-MS {pair[1]:.6g}"


def _few_updates(method: str) -> Check:
    def look(results: Results) -> Iterator[tuple[Status, str]]:
        counts = [int(trials.iterations[trials.chosen]) for trials in results.trials(method)]
        if counts:
            evidence = f"{', '.join(map(str, counts))} updates of the modes"
            yield "holds" if max(counts) <= FEW else "fails", evidence

    return look


def _modes_are_points(results: Results) -> Iterator[tuple[Status, str]]:
    for trials in results.trials("slk_byproduct"):
        if trials.mode_indices is not None:
            rows = trials.mode_indices
            apart = len(np.unique(rows)) == len(rows) and bool((rows >= 0).all())
            yield "holds" if apart else "fails", f"rows {', '.join(map(str, rows.tolist()))}"


def _alike(results: Results) -> Iterator[tuple[Status, str]]:
    values = {method: results.value("nmi", method) for method in SLK}
    known = {method: value for method, value in values.items() if value is not None}
    if len(known) > 1:
        spread = max(known.values()) - min(known.values())
        evidence = ", ".join(f"{method} {value:.3f}" for method, value in known.items())
        yield "holds" if spread <= AGREE else "fails", f"NMI {evidence}"


def _ordered(better: str, than: str) -> Claim[Results]:
    """That one method has the higher NMI on MNIST."""
    text = f"on MNIST the NMI of {better} is above that of {than}"
    return Claim(text, "thesis Table 2.2", (better, than), _higher("nmi", better, than), ("mnist",), "nmi")


_TABLE = "thesis Table 2.2"
CLAIMS: tuple[Claim[Results], ...] = (
    *(_ordered(slk, "ncut") for slk in SLK[:2]),
    *(_ordered(better, than) for better, than in itertools.pairwise(("ncut", "kmodes", "kmeans"))),
    *(
        Claim(
            f"on MNIST {slk} is 0.15 above K-means in accuracy",
            _TABLE,
            (slk, "kmeans"),
            _higher("acc_hungarian", slk, "kmeans", 0.15),
            ("mnist",),
            "acc_hungarian",
        )
        for slk in SLK[:2]
    ),
    *(
        Claim(
            f"on {name} {slk} is 0.1 above Ncut in accuracy",
            _TABLE,
            (slk, "ncut"),
            _higher("acc_hungarian", slk, "ncut", 0.1),
            (dataset,),
            "acc_hungarian",
        )
        for name, dataset in (("MNIST (code)", "mnist_code"), ("MNIST (GAN)", "mnist_gan"))
        for slk in SLK[:2]
    ),
    *(
        Claim(
            f"on Shuttle {slk} is 0.2 above {rival} in accuracy",
            _TABLE,
            (slk, rival),
            _higher("acc_hungarian", slk, rival, 0.2),
            ("shuttle",),
            "acc_hungarian",
        )
        for slk in SLK[:2]
        for rival in RIVALS[:4]
    ),
    *(
        Claim(
            f"on Reuters (code) {slk} is above K-means in accuracy",
            _TABLE,
            (slk, "kmeans"),
            _higher("acc_hungarian", slk, "kmeans"),
            ("reuters_code",),
            "acc_hungarian",
        )
        for slk in SLK
    ),
    Claim("SLK-BO is faster than SLK-MS", _TABLE, SLK[:2], _faster, metric="seconds_optimise"),
    Claim(
        "SLK-MS reaches no higher an objective than LK", "thesis Table 2.3", ("lk", SLK[0]), _lower, metric="objective"
    ),
    *(
        Claim(f"{slk} ends after at most {FEW} updates of the modes", "thesis Figure 2.3", (slk,), _few_updates(slk))
        for slk in SLK[:2]
    ),
    Claim(
        "the modes of SLK-BO are points, each another one", "thesis section 2.3", ("slk_byproduct",), _modes_are_points
    ),
    Claim(
        f"the variants of SLK are within {AGREE} NMI of each other",
        "journal Table IV",
        SLK[:2],
        _alike,
        ("mnist_gan", "labelme (alexnet)", "labelme (gist)"),
        "nmi",
    ),
    *(
        Claim(
            f"entropy clustering is above {rival} in accuracy",
            "Zhang and Boykov, Tables III and IV",
            ("entropy", rival),
            entropy_claims.above(rival),
            metric="acc_hungarian",
        )
        for rival in entropy_claims.RIVALS
    ),
    Claim(
        "the accuracy of information maximisation rises with the order of its entropy",
        "Zhang and Boykov, Table II",
        (entropy_claims.of_order(entropy_claims.ORDERS[0]), entropy_claims.of_order(entropy_claims.ORDERS[-1])),
        entropy_claims.rises_with_order,
        metric="acc_hungarian",
    ),
    *(
        Claim(
            "beside known labels entropy clustering is above "
            + ("these alone" if rival == "labelled" else f"{rival} in accuracy"),
            "Zhang and Boykov, Table VI",
            ("entropy", rival),
            entropy_claims.above(rival, labels=True),
            metric="accuracy",
        )
        for rival in entropy_claims.WITH_LABELS
    ),
    Claim(
        "EM makes pseudo-labels faster than Newton's method",
        "Zhang and Boykov, Table I",
        (entropy_claims.EM, entropy_claims.NEWTON),
        entropy_claims.faster,
    ),
    Claim(
        f"EM makes pseudo-labels in {entropy_claims.STEPS} steps",
        "Zhang and Boykov, Table I",
        (entropy_claims.EM,),
        entropy_claims.few_steps,
    ),
)
