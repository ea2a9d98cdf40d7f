"""Discriminative clustering of given features, or with learned features: `from clustering.deep import XSDC`."""

from clustering.foundation.lazy import lazy_names
from clustering.foundation.plugins import Plugins

OBJECTIVES = Plugins(
    kind="objective",
    table={  # name              assignment step                            loss
        "entropy": "clustering.deep.objectives:Entropy",  # exact or EM     reverse cross-entropy
        "migd": "clustering.deep.objectives:MutualInformation",  # none     information
        "imsat": "clustering.deep.objectives:IMSAT",  # none                information and agreement of views
        "iic": "clustering.deep.objectives:IIC",  # none                    information between views
        "sela": "clustering.deep.objectives:SeLa",  # optimal transport     cross-entropy
        "miadm": "clustering.deep.objectives:MIADM",  # ADM                 cross-entropy
        "labelled": "clustering.deep.objectives:Labelled",  # none          cross-entropy of known labels alone
        "labelled_reverse": "clustering.deep.objectives:LabelledReverse",  # none   reverse cross-entropy of these
        "labelled_absolute": "clustering.deep.objectives:LabelledAbsolute",  # none absolute error of these
        # XSDC has no classifier in training, and so no row here: matrix balancing, ridge loss (xsdc/reversal.py)
    },
    group="transduce.objectives",
)

NETWORKS = Plugins(
    kind="network",
    table={  # by number of channels, or by number of values per row
        "small_cnn": "clustering.deep.networks:small_cnn",
        "vgg4": "clustering.deep.networks:vgg4",
        "mlp": "clustering.deep.networks:mlp",
        "waves": "clustering.deep.networks:waves",
    },
    group="transduce.networks",
)

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EntropyClustering": "clustering.deep.linear",
        "SoftmaxClustering": "clustering.deep.linear",
        "TURTLE": "clustering.deep.turtle",
        "XSDC": "clustering.deep.xsdc.estimator",
    },
)
