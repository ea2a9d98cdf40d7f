"""The figures of XSDC (Jones, Roulet and Harchaoui): accuracy along labels, sizes of clusters and settings, beside
other methods.

The paper measures accuracy on a test set, at the step that is best on 10,000 labelled points for validation. Here it is
measured on all points whose class is not known, after the last step. Figures of many runs take `SHORT` ones, of 20,000
digits.
"""

from collections.abc import Mapping, Sequence

from runs.config import groups
from runs.config.configs import ClusterConfig
from runs.config.overrides import write
from runs.figures.accuracy_along import Along, drawing, each
from runs.stages.clustering.results import Clustered

ALL, SUPERVISED, UNTRAINED = "XSDC", "supervised steps alone", "untrained"
SEEDS = "1,2,3"
ONE_RUN = {"starts": "1", "selection": "null", "seed": SEEDS}
PAPER = {"assignment": "balancing", "schedule": "constant", "classifier": "nearest", **ONE_RUN}  # not the defaults
MNIST = {"dataset": "mnist", "method": "xsdc_lenet5", "steps": "400", "supervised_step_size": "null", **PAPER}
MAGIC = {"dataset": "magic", "method": "xsdc", "representation": "kernel", "steps": "400", "decay": "0.0625", **PAPER}
SHORT = {"steps": "200", "batch_size": "512"}
MNIST_SHORT = {**MNIST, "dataset": "mnist_small", "per_class": "2000", **SHORT}
ELSEWHERE = {"method": "xsdc", "batch_size": "512", **PAPER}  # steps=60, as of its own
SEEDED = {"method": "seeded_kmeans", "metric": "linear,inverse_covariance,gaussian", **ONE_RUN}
MNIST_AT, MAGIC_AT = (  # numbers of labels, with the step sizes selected by the authors
    [{key: write(value) for key, value in line.items()} for line in groups.experiment(name)["each"]]
    for name in ("xsdc_mnist", "xsdc_magic")
)
MNIST_COPIES = {"50": "16", "100": "8", "500": "2"}  # selected by the authors
AT = {"labels": "50", "step_size": str(2.0**-6)}  # MNIST, where another setting varies


def stage(config: ClusterConfig) -> str:
    """Name of the training of a network: all steps, or some of them."""
    options = config.method.options
    if options.get("steps"):
        return ALL if options.get("supervised_steps") or not config.asked_labels() else "without supervised steps"
    return SUPERVISED if options.get("supervised_steps") else UNTRAINED


def stages(settings: Mapping[str, str], each: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Settings of the three stages of the paper at each number of labels."""
    variants = []
    for line in each:
        at = {**settings, **line}
        variants += [
            at,
            at | {"steps": "0"},
            at | {"steps": "0", "supervised_steps": "0"},
        ]
    return variants


def _labels(result: Clustered) -> float:
    return float(result.config.asked_labels() or 0)


ASSIGNMENTS = {
    "pseudo_labels": "pseudo-labels",
    "deep_clustering": "deep clustering",
    "eigenvectors_kmeans": "eigenvectors with K-means",
}


def assignment(config: ClusterConfig) -> str:
    """Name of the way in which M is found."""
    rule = str(config.method.options["assignment"])
    return ASSIGNMENTS.get(rule, rule)


BY_LABELS = drawing(
    Along(
        axis="known labels",
        value=_labels,
        lines=each(stage),
        about="Accuracy of points whose class is not known against the number of known labels: features of the "
        "untrained network, after supervised steps, and after steps on all points.",
    ),
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


BY_METRIC = drawing(
    Along(
        axis="known labels",
        value=_labels,
        lines=each(_metric),
        about="Accuracy against the number of known labels; without labels, under the best match of clusters and "
        "classes. XSDC, and K-means on fixed features with three similarities, whose first means are those of the "
        "labelled points, which stay in their clusters.",
    ),
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


_BOTH = "balancing,pseudo_labels"
_DEEP = {"assignment": "deep_clustering"}
MNIST_DEEP = {"50": "10", "100": "10", "500": "320"}  # clusters of K-means selected by the authors
BY_ASSIGNMENT = drawing(
    Along(
        axis="known labels",
        value=_labels,
        lines=each(assignment),
        about="Accuracy against the number of known labels, where the matrix M is balanced, where it is made of the "
        "labels that a ridge regression on the labelled points predicts, which the paper has ahead on MNIST, and where "
        "it is made of clusters of deep clustering, that is, of K-means on the features of all points from time to "
        "time.",
    ),
    (
        *(MNIST | at | {"assignment": _BOTH} for at in MNIST_AT),
        *(MNIST | at | _DEEP | {"deep_clusters": MNIST_DEEP[at["labels"]]} for at in MNIST_AT),
    ),
    (
        {**ELSEWHERE, "labels": "50,100,500", "assignment": _BOTH},
        {**ELSEWHERE, **_DEEP, "labels": "50,100,500", "deep_steps": "20"},
    ),
)


def _copied(config: ClusterConfig) -> str:
    return _COPIES if config.method.options["copies"] > 1 else assignment(config)


_COPIES = "balancing of copies"
BY_COPIES = drawing(
    Along(
        axis="known labels",
        value=_labels,
        lines=each(_copied),
        about="Accuracy against the number of known labels, where the matrix M is balanced, where it is made of "
        "pseudo-labels, and where a batch has each picture without label together with changed copies (turned, "
        "widened, moved, partly erased) that are known to be of its cluster.",
    ),
    (
        *(MNIST | at | {"assignment": _BOTH} for at in MNIST_AT),
        *(MNIST | at | {"copies": MNIST_COPIES[at["labels"]]} for at in MNIST_AT),
    ),
    (
        {**ELSEWHERE, "labels": "50,100,500", "assignment": _BOTH},
        {**ELSEWHERE, "labels": "50,100,500", "copies": "4"},
    ),
)


_RELAXED = {"steps": "50", "assignment": "balancing,eigenvectors,eigenvectors_kmeans"}
WITHOUT_LABELS = (
    MNIST
    | _RELAXED
    | {"step_size": str(2.0**-2), "penalty": ",".join(str(2.0**power) for power in (-40, -20, -10, -4))}
)
WITHOUT_LABELS_ELSEWHERE = {**ELSEWHERE, **_RELAXED, "penalty": "0.0001,0.01,0.1"}
UNLABELLED = drawing(
    Along(
        axis="penalty",
        value=lambda result: float(result.config.method.options["penalty"]),
        lines=each(assignment),
        about="Accuracy without labels under the best match of clusters and classes, after 50 steps, against the ridge "
        "penalty: where the matrix M is balanced, where it is made of the eigenvectors of its relaxation, and where "
        "it is made of clusters of K-means on these.",
        logarithmic=True,
    ),
    (WITHOUT_LABELS,),
    (WITHOUT_LABELS_ELSEWHERE,),
)


def _constraints(config: ClusterConfig) -> str:
    """Name of the constraints known besides labels."""
    if config.links is not None:
        return f"{config.links} random pairs"
    return NOTHING if config.coarse is None else f"membership of {{{', '.join(map(str, config.coarse))}}}"


NOTHING = "labels alone"
FOUR_OR_NINE = {"coarse": "[4, 9]"}
_PAIRS = {"links": "200"}
_AT_LABELS = [MNIST_SHORT | at for at in MNIST_AT]
BY_CONSTRAINTS = drawing(
    Along(
        axis="known labels",
        value=_labels,
        lines=each(_constraints),
        about="Accuracy against the number of known labels: with labels alone; where it is known of half the points "
        "whether their digit is one of two, and only the other half is judged; and where it is known of some random "
        "pairs whether their digits are equal. The paper knows the membership of all points, and a third of the pairs "
        "of every batch; here the pairs are the same throughout, with the relations that follow from them, and a batch "
        "takes them in turns, at least half of its size.",
    ),
    tuple(at | known for known in ({}, FOUR_OR_NINE, _PAIRS) for at in _AT_LABELS),
    tuple({**ELSEWHERE, "labels": "50,100,500"} | known for known in ({}, FOUR_OR_NINE, _PAIRS)),
)


_UNEVEN = MNIST | AT | SHORT | {"dataset": "mnist_uneven", "share": "0.1,0.3,0.5,0.7,0.9"}
BY_SHARE = drawing(
    Along(
        axis="share of digits 0 to 4",
        value=lambda result: float(result.config.dataset.options.get("share", 0.5)),
        lines=each(stage),
        panel=lambda config: config.dataset.name,
        about="Accuracy with 50 labels against the share of digits 0 to 4 among 25,000, where the method is told that "
        "clusters are of one size.",
    ),
    (_UNEVEN, _UNEVEN | {"steps": "0"}),
    ({**ELSEWHERE, "labels": "50", "steps": "60,0", "share": "0.1,0.3,0.5,0.7,0.9"},),
    {"digits": "digits_uneven"},
)


def _varied(config: ClusterConfig) -> str:
    """The setting that differs from the default; the default config is in the panel of the penalty."""
    options = config.method.options
    if options["supervised_step_size"] is not None:
        return "supervised step"
    return "step" if options["step_size"] != 2.0**-6 else "penalty"


def _setting(result: Clustered) -> float:
    options = result.config.method.options
    name = {"supervised step": "supervised_step_size", "step": "step_size", "penalty": "penalty"}[
        _varied(result.config)
    ]
    return float(options[name])


_POWERS = {
    "supervised_step_size": (-9, -7, -5, -3, -1),
    "step_size": (-9, -7.5, -5, -3, -1),
    "penalty": (-40, -30, -20, -10, -4),
}
SENSITIVITY = drawing(
    Along(
        axis={"supervised step": "size of supervised steps", "step": "size of steps", "penalty": "penalty"},
        value=_setting,
        lines=each(lambda config: ALL),
        panel=_varied,
        about="Accuracy on MNIST with 50 labels against each setting, with the others fixed: the size of supervised "
        "steps, the size of steps on all points, and the ridge penalty.",
        logarithmic=True,
    ),
    tuple(MNIST_SHORT | AT | {key: ",".join(str(2.0**power) for power in powers)} for key, powers in _POWERS.items()),
    tuple({**ELSEWHERE, **AT, key: ",".join(str(2.0**power) for power in powers)} for key, powers in _POWERS.items()),
)
