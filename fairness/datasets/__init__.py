"""Data sets with sensitive features. To add one, write a file in this folder and add a line to this table.

A data set is a frozen dataclass whose fields are its config, with a class attribute `name`. `read()` returns a
`fairness.datasets.dataset.FairDataset`, and `source()` a fast fingerprint of where the points come from, which does not
depend on the place of files; both raise InputError if files are missing. It may have `clusters`, the number of clusters
in the papers.
"""

from clustering.foundation.plugins import Plugins

DATASETS = Plugins(
    kind="dataset",
    table={
        "synthetic": "fairness.datasets.papers:Synthetic",
        "synthetic_unequal": "fairness.datasets.papers:SyntheticUnequal",
        "adult": "fairness.datasets.papers:Adult",
        "bank": "fairness.datasets.papers:Bank",
        "census": "fairness.datasets.papers:Census",
        "table": "fairness.datasets.table:Table",
    },
    group="transduce.fair_datasets",
)
