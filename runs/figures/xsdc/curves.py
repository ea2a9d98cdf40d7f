"""The figures of XSDC (Jones, Roulet and Harchaoui): accuracy along labels, sizes of clusters and settings, and beside
that of other methods.

The paper's accuracy is of a test set, at the step that is best on 10,000 labelled points for validation; here it is of
all points whose class is not known, after the last step. Figures of many runs take `SHORT` ones, of 20,000 digits.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from runs.config import groups
from runs.config.configs import ClusterConfig
from runs.config.overrides import write
from runs.figures.accuracy_along import Along, Panels, compared, drawing, gains
from runs.stages.lineage import short

ALL, SUPERVISED, UNTRAINED = "XSDC", "supervised steps alone", "untrained"
SEEDS = "1,2,3"
PENALTY = 2.0**-20  # small enough, as the paper has it
ONE_RUN = {"starts": "1", "selection": "null", "seed": SEEDS}
PAPER = {"assignment": "balancing", "schedule": "constant", "classifier": "nearest", **ONE_RUN}  # not the defaults
MNIST = {"dataset": "mnist", "method": "xsdc_lenet5", "steps": "400", "supervised_step_size": "null", **PAPER}
MAGIC = {"dataset": "magic", "method": "xsdc", "representation": "kernel", "steps": "400", "decay": "0.0625", **PAPER}
SHORT = {"steps": "200", "batch_size": "512"}
MNIST_SHORT = {**MNIST, "dataset": "mnist_small", "per_class": "2000", **SHORT}
ELSEWHERE = {"method": "xsdc", "batch_size": "512", **PAPER}  # steps=60, as of its own
SEEDED = {"method": "seeded_kmeans", "metric": "linear,inverse_covariance,gaussian", **ONE_RUN}
MNIST_AT, MAGIC_AT = (  # numbers of labels, with the step sizes that the authors selected
    [{key: write(value) for key, value in line.items()} for line in groups.experiment(name)["each"]]
    for name in ("xsdc_mnist", "xsdc_magic")
)
MNIST_COPIES = {"50": "16", "100": "8", "500": "2"}  # that they selected likewise
AT = {"labels": "50", "step_size": str(2.0**-6)}  # of MNIST, where something else varies


def stage(config: ClusterConfig) -> str:
    """How far a network was trained."""
    options = config.method.options
    if options.get("steps"):
        return ALL if options.get("supervised_steps") or not _known(config) else "without supervised steps"
    return SUPERVISED if options.get("supervised_steps") else UNTRAINED


def stages(settings: Mapping[str, str], each: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Settings of the three stages of the paper at each number of labels."""
    found = []
    for line in each:
        at = {**settings, **line}
        found += [
            at,
            at | {"steps": "0"},
            at | {"steps": "0", "supervised_steps": "0"},
        ]
    return found


def _known(config: ClusterConfig) -> float:
    asked = config.asked_labels()
    return 0.0 if asked is None else float(asked)


def _assignment(config: ClusterConfig) -> str:
    return str(config.method.options["assignment"])


def _by_labels(panels: Panels) -> str:
    claims = []
    for name, lines in panels.items():
        told = gains(lines, ALL, SUPERVISED, "labels")
        differences = {value: float(np.mean(each)) for value, each in compared(lines, ALL, SUPERVISED).items() if value}
        shrinks = ""
        if len(differences) > 1:
            few, many = differences[min(differences)], differences[max(differences)]
            shrinks = "; the gap shrinks with labels" if few > many else "; the gap does not shrink with labels"
        if told:
            claims.append(f"on {name} XSDC is above its supervised steps by {told}{shrinks}.")
        without = compared(lines, ALL, UNTRAINED).get(0, [])
        if without:
            claims.append(f"Without labels it is above untrained features for {_won(without)}.")
    return (
        "Accuracy of points whose class is not known against the number of known labels: features of the untrained "
        f"network, after supervised steps, and after steps on all points. {' '.join(claims)}"
    )


BY_LABELS = drawing(
    Along("known labels", _known, stage, lambda config: short(config.dataset), _by_labels),
    (
        *stages(MNIST, MNIST_AT),
        {**MNIST, "step_size": str(2.0**-2), "supervised_steps": "0"},
        {**MNIST, "steps": "0", "supervised_steps": "0"},
        *stages(MAGIC, MAGIC_AT),
        {**MAGIC, "supervised_steps": "0"},
        {**MAGIC, "steps": "0", "supervised_steps": "0"},
    ),
    ({**ELSEWHERE, "labels": "50,100,500", "steps": "60,0", "supervised_steps": "100,0"},),
)


def _metric(config: ClusterConfig) -> str:
    name = str(config.method.options.get("metric", "")).replace("_", " ")
    return f"K-means, {name}" if name else ALL


def _by_metric(panels: Panels) -> str:
    claims = []
    for data, lines in panels.items():
        told = {name: gains(lines, ALL, name, "labels") for name in lines if name != ALL}
        claims += [f"On {data} XSDC is above {name} by {one}." for name, one in told.items() if one]
    return (
        "Accuracy against the number of known labels, without labels under the best match: XSDC, and K-means on fixed "
        "features, whose first means are those of the known points, which stay in their clusters, by three "
        f"similarities. {' '.join(claims)}"
    )


BY_METRIC = drawing(
    Along("known labels", _known, _metric, lambda config: short(config.dataset), _by_metric),
    (
        {**MNIST, "step_size": str(2.0**-2), "supervised_steps": "0"},
        *(MNIST | at for at in MNIST_AT),
        {**SEEDED, "dataset": "mnist", "labels": "null,50,100,500"},
        {**MAGIC, "supervised_steps": "0"},
        *(MAGIC | at for at in MAGIC_AT),
        {**SEEDED, "dataset": "magic", "labels": "null,50,100,500"},
    ),
    ({**ELSEWHERE, "labels": "50,100,500"}, {**SEEDED, "labels": "50,100,500"}),
)


def _by_assignment(panels: Panels) -> str:
    told = [gains(lines, "balancing", "pseudo_labels", "labels") for lines in panels.values()]
    return (
        "Accuracy against the number of known labels, where M is balanced and where it is made of the labels that a "
        "ridge regression on the known ones predicts, which the paper has ahead on MNIST; its third way, the labels of "
        "deep clustering, is not drawn. "
        + " ".join(f"Balancing is above pseudo-labels by {one}." for one in told if one)
    )


_BOTH = "balancing,pseudo_labels"
BY_ASSIGNMENT = drawing(
    Along("known labels", _known, _assignment, lambda config: short(config.dataset), _by_assignment),
    tuple(MNIST | at | {"assignment": _BOTH} for at in MNIST_AT),
    ({**ELSEWHERE, "labels": "50,100,500", "assignment": _BOTH},),
)


def _copied(config: ClusterConfig) -> str:
    return "balancing of copies" if config.method.options["copies"] > 1 else _assignment(config)


def _by_copies(panels: Panels) -> str:
    told = []
    for lines in panels.values():
        for than in ("balancing", "pseudo_labels"):
            gained = gains(lines, "balancing of copies", than, "labels")
            told += [f"Balancing of copies is above {than.replace('_', '-')} by {gained}."] if gained else []
    return (
        "Accuracy against the number of known labels, where M is balanced, where it is of pseudo-labels, and where "
        "each picture without label stands in a batch with changed copies (turned, widened, moved, partly erased) that "
        f"are known to be of its cluster. {' '.join(told)}"
    )


BY_COPIES = drawing(
    Along("known labels", _known, _copied, lambda config: short(config.dataset), _by_copies),
    (
        *(MNIST | at | {"assignment": _BOTH} for at in MNIST_AT),
        *(MNIST | at | {"copies": MNIST_COPIES[at["labels"]]} for at in MNIST_AT),
    ),
    (
        {**ELSEWHERE, "labels": "50,100,500", "assignment": _BOTH},
        {**ELSEWHERE, "labels": "50,100,500", "copies": "4"},
    ),
)


def _unlabelled(panels: Panels) -> str:
    told = [gains(lines, "balancing", "eigenvectors", "of penalty") for lines in panels.values()]
    return (
        "Accuracy without labels under the best match, after 50 steps, against the ridge penalty, the same for both: "
        "where M is balanced and where it is made of the eigenvectors of its relaxation; the paper's third way, "
        "K-means on these, is not drawn. "
        + " ".join(f"Balancing is above eigenvectors by {one}." for one in told if one)
    )


UNLABELLED = drawing(
    Along(
        "penalty",
        lambda config: float(config.method.options["penalty"]),
        _assignment,
        lambda config: short(config.dataset),
        _unlabelled,
        logarithmic=True,
    ),
    (
        MNIST
        | {"steps": "50", "step_size": str(2.0**-2), "assignment": "balancing,eigenvectors"}
        | {"penalty": ",".join(str(2.0**power) for power in (-40, -20, -10, -4))},
    ),
    ({**ELSEWHERE, "steps": "50", "assignment": "balancing,eigenvectors", "penalty": "0.0001,0.01,0.1"},),
)


def _constraints(config: ClusterConfig) -> str:
    """What is known besides labels."""
    if config.links is not None:
        return f"{config.links} random pairs"
    return NOTHING if config.coarse is None else f"membership of {{{', '.join(map(str, config.coarse))}}}"


def _by_constraints(panels: Panels) -> str:
    claims = []
    for lines in panels.values():
        others = sorted(set(lines) - {NOTHING}, reverse=True)
        for name, than in [*((name, NOTHING) for name in others), *zip(others[1:], others, strict=False)]:
            told = gains(lines, name, than, "labels")
            claims += [f"{name[0].upper()}{name[1:]} over {than}: {told}."] if told else []
    return (
        "Accuracy against the number of known labels, where nothing else is known, where it is known of half the "
        "points whether their digit is one of two, of which only the others are judged, and where the relation of some "
        "random pairs is known. The paper has memberships of all points and a third of the pairs of every batch; here "
        "pairs stay, and what follows from them is known, too; a batch has those that labels leave room for, half "
        f"of its size at least, in turns. {' '.join(claims)}"
    )


NOTHING = "labels alone"
_FOUR_OR_NINE = {"coarse": "[4, 9]"}
_PAIRS = {"links": "200"}
_AT_LABELS = [MNIST_SHORT | at for at in MNIST_AT]
BY_CONSTRAINTS = drawing(
    Along("known labels", _known, _constraints, lambda config: short(config.dataset), _by_constraints),
    tuple(at | known for known in ({}, _FOUR_OR_NINE, _PAIRS) for at in _AT_LABELS),
    tuple({**ELSEWHERE, "labels": "50,100,500"} | known for known in ({}, _FOUR_OR_NINE, _PAIRS)),
)


def _by_share(panels: Panels) -> str:
    told = [gains(lines, ALL, SUPERVISED, "of 0 to 4") for lines in panels.values()]
    return (
        "Accuracy with 50 labels against the share of digits 0 to 4 among 25,000, at bounds for clusters of one size. "
        + " ".join(f"XSDC is above its supervised steps by {one}." for one in told if one)
    )


_UNEVEN = MNIST | AT | SHORT | {"dataset": "mnist_uneven", "share": "0.1,0.3,0.5,0.7,0.9"}
BY_SHARE = drawing(
    Along(
        "share of digits 0 to 4",
        lambda config: float(config.dataset.options.get("share", 0.5)),
        stage,
        lambda config: config.dataset.name,
        _by_share,
    ),
    (_UNEVEN, _UNEVEN | {"steps": "0"}),
    ({**ELSEWHERE, "labels": "50", "steps": "60,0", "share": "0.1,0.3,0.5,0.7,0.9"},),
    {"digits": "digits_uneven"},
)


def _varied(config: ClusterConfig) -> str:
    """Which of the three settings is not as usual; the usual config is in every panel's middle, and in that of the
    penalty here."""
    options = config.method.options
    if options["supervised_step_size"] is not None:
        return "supervised step"
    return "step" if options["step_size"] != 2.0**-6 else "penalty"


def _setting(config: ClusterConfig) -> float:
    options = config.method.options
    name = {"supervised step": "supervised_step_size", "step": "step_size", "penalty": "penalty"}[_varied(config)]
    return float(options[name])


def _sensitivity(panels: Panels) -> str:
    spans = {}
    for name, lines in panels.items():
        means = [float(np.mean(list(seeds.values()))) for line in lines.values() for seeds in line.values()]
        spans[name] = max(means) - min(means)
    told = ", ".join(f"{100 * span:.1f} points over the {name}" for name, span in spans.items())
    most = f"; it matters most which {max(spans, key=lambda name: spans[name])} is taken" if len(spans) > 1 else ""
    return (
        "Accuracy on MNIST with 50 labels against each setting, the others held: size of supervised steps, of steps on "
        f"all points, and the ridge penalty. Means differ by {told}{most}."
    )


def _won(differences: Sequence[float]) -> str:
    return f"{sum(one > 0 for one in differences)} of {len(differences)} seeds"


_POWERS = {
    "supervised_step_size": (-9, -7, -5, -3, -1),
    "step_size": (-9, -7.5, -5, -3, -1),
    "penalty": (-40, -30, -20, -10, -4),
}
SENSITIVITY = drawing(
    Along(
        {"supervised step": "size of supervised steps", "step": "size of steps", "penalty": "penalty"},
        _setting,
        lambda config: ALL,
        _varied,
        _sensitivity,
        logarithmic=True,
    ),
    tuple(MNIST_SHORT | AT | {key: ",".join(str(2.0**power) for power in powers)} for key, powers in _POWERS.items()),
    tuple({**ELSEWHERE, **AT, key: ",".join(str(2.0**power) for power in powers)} for key, powers in _POWERS.items()),
)
