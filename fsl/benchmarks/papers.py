"""The benchmarks of papers that are distributed as files, as papers.toml declares them."""

import tomllib
from importlib import resources
from typing import Any

from fsl.benchmarks.augmentation import Augmentation
from fsl.benchmarks.listed import ListedBenchmark, class_lists

_DECLARED = tomllib.loads((resources.files("fsl.benchmarks") / "papers.toml").read_text(encoding="utf-8"))


def _declared(title: str) -> type[ListedBenchmark]:
    """The class of a benchmark with the attributes of its table."""
    table: dict[str, Any] = dict(_DECLARED[title])
    entries = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    if "augmentation" in entries:
        entries["augmentation"] = Augmentation(**table["augmentation"])
    about = {"__doc__": entries.pop("about"), "__module__": __name__, "classes": class_lists(table["name"])}
    return type(title, (ListedBenchmark,), {**entries, **about})


MiniImageNet, TieredImageNet, Cub, CifarFs, Fc100, INat = map(_declared, _DECLARED)
