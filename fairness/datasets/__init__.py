"""Data sets with sensitive features. To add one, write a file in this folder and add a line to this table."""

from clustering.foundation.plugins import Plugins

DATASETS = Plugins(
    kind="dataset",
    table={
        "synthetic": "fairness.datasets.generated:Synthetic",
        "synthetic_unequal": "fairness.datasets.generated:SyntheticUnequal",
        "adult": "fairness.datasets.papers:Adult",
        "bank": "fairness.datasets.papers:Bank",
        "census": "fairness.datasets.papers:Census",
        "census_like": "fairness.datasets.generated:CensusLike",
        "table": "fairness.datasets.table:Table",
    },
    group="transduce.fair_datasets",
)
