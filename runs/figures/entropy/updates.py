"""Loss and accuracy of linear heads with pseudo-labels made for each batch or once an epoch, by the length of training
(Zhang and Boykov, Figure 12)."""

from runs.config.configs import ClusterConfig
from runs.figures.accuracy_along import Along, Quantity, by_start, drawing, each, experiment
from runs.stages.clustering.results import Clustered
from runs.stages.lineage import short

WHEN = {"batch": "for each batch", "epoch": "once an epoch"}
METHODS = {"entropy": "entropy clustering", "miadm": "MIADM"}
UPDATES = experiment("entropy_updates")


def epochs(result: Clustered) -> float:
    """Epochs of a training."""
    options, (points, _) = result.config.method.options, result.shape
    return float(options["max_iter"]) / (points // min(int(options["batch_size"]), points))


def method(config: ClusterConfig) -> str:
    """Name of a method in the figure."""
    name = short(config.method)
    return METHODS.get(name, name)


DRAWING = drawing(
    Along(
        axis="epochs of the training",
        value=epochs,
        lines=each(lambda config: WHEN[str(config.method.options["pseudo_labels"])]),
        panel=method,
        about="Linear heads against the epochs of the training, whose steps become small towards its end: the loss of "
        "equation 14 over all points, and the accuracy. Pseudo-labels are made for each batch or once an epoch; the "
        "paper has 63 % and 52 % after 50 epochs, on features that it does not name.",
        rows=(
            Quantity("loss (nats)", by_start("objective")),
            Quantity("accuracy (%)", by_start("acc_hungarian"), 100.0),
        ),
        over="starts",
        logarithmic=True,
    ),
    (UPDATES,),
    (UPDATES | {"max_iter": "7,35,70,175,350"},),
)
