"""Data sets with sensitive features. To add one, write a file in this folder and add a line to this table."""

from clustering.foundation.plugins import Plugins

DATASETS = Plugins(
    kind="dataset",
    table={
        "synthetic": "fairness.datasets.synthetic:Synthetic",
        "synthetic_unequal": "fairness.datasets.synthetic:SyntheticUnequal",
        "adult": "fairness.datasets.adult:Adult",
        "bank": "fairness.datasets.bank:Bank",
        "census": "fairness.datasets.census:Census",
        "census_like": "fairness.datasets.census_like:CensusLike",
        "table": "fairness.datasets.table:Table",
    },
    group="transduce.fair_datasets",
)
