"""The figures of XSDC (Jones, Roulet and Harchaoui): accuracy along labels, sizes of clusters and settings, beside
other methods.

The paper measures accuracy on a test set, at the step that is best on 10,000 labelled points for validation. Here it is
measured on all points whose class is not known, after the last step. Step sizes, numbers of copies and of clusters are
those that the authors selected; figures of many runs take short ones, of 20,000 digits.
"""

from collections.abc import Callable

from runs.config.configs import ClusterConfig
from runs.figures.accuracy_along import Along, each
from runs.figures.drawing import Drawing
from runs.stages.clustering.results import Clustered

ALL, SUPERVISED, UNTRAINED = "XSDC", "supervised steps alone", "untrained"
ASSIGNMENTS = {
    "pseudo_labels": "pseudo-labels",
    "deep_clustering": "deep clustering",
    "eigenvectors_kmeans": "eigenvectors with K-means",
}


def stage(config: ClusterConfig) -> str:
    """Name of the training of a network: all steps, or some of them."""
    options = config.method.options
    if options.get("steps"):
        return ALL if options.get("supervised_steps") or not config.asked_labels() else "without supervised steps"
    return SUPERVISED if options.get("supervised_steps") else UNTRAINED


def assignment(config: ClusterConfig) -> str:
    """Name of the way in which M is found."""
    rule = str(config.method.options["assignment"])
    return ASSIGNMENTS.get(rule, rule)


def _labels(result: Clustered) -> float:
    return float(result.config.asked_labels() or 0)


def _metric(config: ClusterConfig) -> str:
    name = str(config.method.options.get("metric", "")).replace("_", " ")
    return f"K-means, {name}" if name else ALL


def _copied(config: ClusterConfig) -> str:
    return "balancing of copies" if config.method.options["copies"] > 1 else assignment(config)


def _constraints(config: ClusterConfig) -> str:
    """Name of the constraints known besides labels."""
    if config.links is not None:
        return f"{config.links} random pairs"
    return "labels alone" if config.coarse is None else f"membership of {{{', '.join(map(str, config.coarse))}}}"


def _varied(config: ClusterConfig) -> str:
    """The setting that differs from the default; the default config is in the panel of the penalty."""
    options = config.method.options
    if options["supervised_step_size"] is not None:
        return "supervised step"
    return "step" if options["step_size"] != 2.0**-6 else "penalty"


def _setting(result: Clustered) -> float:
    names = {"supervised step": "supervised_step_size", "step": "step_size", "penalty": "penalty"}
    return float(result.config.method.options[names[_varied(result.config)]])


def _by_labels(name: Callable[[ClusterConfig], str], about: str) -> Drawing:
    """Accuracy along the number of known labels, a line for each name."""
    return Along(axis="known labels", value=_labels, lines=each(name), about=about).drawing()


BY_LABELS = _by_labels(
    stage,
    "Accuracy of points whose class is not known against the number of known labels: features of the "
    "untrained network, after supervised steps, and after steps on all points.",
)
BY_METRIC = _by_labels(
    _metric,
    "Accuracy against the number of known labels; without labels, under the best match of clusters and "
    "classes. XSDC, and K-means on fixed features with three similarities, whose first means are those of the "
    "labelled points, which stay in their clusters.",
)
BY_ASSIGNMENT = _by_labels(
    assignment,
    "Accuracy against the number of known labels, where the matrix M is balanced, where it is made of the "
    "labels that a ridge regression on the labelled points predicts, which the paper has ahead on MNIST, and where "
    "it is made of clusters of deep clustering, that is, of K-means on the features of all points from time to "
    "time.",
)
BY_COPIES = _by_labels(
    _copied,
    "Accuracy against the number of known labels, where the matrix M is balanced, where it is made of "
    "pseudo-labels, and where a batch has each picture without label together with changed copies (turned, "
    "widened, moved, partly erased) that are known to be of its cluster.",
)
UNLABELLED = Along(
    axis="penalty",
    value=lambda result: float(result.config.method.options["penalty"]),
    lines=each(assignment),
    about="Accuracy without labels under the best match of clusters and classes, after 50 steps, against the ridge "
    "penalty: where the matrix M is balanced, where it is made of the eigenvectors of its relaxation, and where "
    "it is made of clusters of K-means on these.",
    logarithmic=True,
).drawing()
BY_CONSTRAINTS = _by_labels(
    _constraints,
    "Accuracy against the number of known labels: with labels alone; where it is known of half the points "
    "whether their digit is one of two, and only the other half is judged; and where it is known of some random "
    "pairs whether their digits are equal. The paper knows the membership of all points, and a third of the pairs "
    "of every batch; here the pairs are the same throughout, with the relations that follow from them, and a batch "
    "takes them in turns, at least half of its size.",
)
BY_SHARE = Along(
    axis="share of digits 0 to 4",
    value=lambda result: float(result.config.dataset.options.get("share", 0.5)),
    lines=each(stage),
    panel=lambda config: config.dataset.name,
    about="Accuracy with 50 labels against the share of digits 0 to 4 among 25,000, where the method is told that "
    "clusters are of one size.",
).drawing()
SENSITIVITY = Along(
    axis={"supervised step": "size of supervised steps", "step": "size of steps", "penalty": "penalty"},
    value=_setting,
    lines=each(lambda config: ALL),
    panel=_varied,
    about="Accuracy on MNIST with 50 labels against each setting, with the others fixed: the size of supervised "
    "steps, the size of steps on all points, and the ridge penalty.",
    logarithmic=True,
).drawing()
