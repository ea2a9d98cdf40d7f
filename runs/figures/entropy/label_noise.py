"""Accuracy where some of the known labels are wrong, by the loss of a network (Zhang and Boykov, Figure 11).

The paper has ResNet-18 and pictures of natural scenes, and no third loss: reverse cross-entropy with smoothed labels is
the absolute error times a number.
"""

from runs.config.configs import ClusterConfig
from runs.figures.accuracy_along import Along, drawing, each, experiment
from runs.stages.lineage import short

LOSSES = {
    "labelled": "cross-entropy",
    "labelled_reverse": "reverse",
    "labelled_absolute": "absolute error",
}
NOISE = experiment("entropy_noise")


def loss(config: ClusterConfig) -> str:
    """Name of the loss of a training."""
    name = short(config.method)
    return LOSSES.get(name, name)


DRAWING = drawing(
    Along(
        axis="wrong labels (%)",
        value=lambda result: round(100 * result.config.wrong, 6),
        lines=each(loss),
        about="Accuracy of points whose label is not known against the share of known labels that are random. Both "
        "cross-entropies, forward and reverse, smooth labels by this share; the paper has the reverse one ahead where "
        "the share is large. Up to a factor the reverse one is the absolute error.",
    ),
    (NOISE,),
    ({"labels": "1000", **{key: NOISE[key] for key in ("wrong", "method", "seed")}, "starts": "1"},),
)
