"""Which backbones timm knows, found in its source: importing it takes seconds, a misspelt name should not."""

import importlib.util
import pathlib
import re
from functools import cache

from clustering.foundation.errors import InputError, unknown
from fsl.backbones import OWN
from runs.config.groups import TIMM

FEWEST = 500  # with fewer names found, timm is written in another way than this file expects


def check_backbone(name: str, also: list[str]) -> None:
    """That a backbone is one of `also`, of this project's own or of timm's.

    Raises:
        InputError: with the nearest right name.
    """
    bare = name.removeprefix(TIMM)
    if bare != name and bare in OWN:
        raise InputError(f"backbone={name}: a network of this project, not of timm; write backbone={bare}")
    if name in also or name in OWN:
        return
    if ":" in bare:
        raise InputError(
            f"backbone={name}: not a network of this project or of timm, and a module's cannot be named: files of "
            "weights name their network, and none has a say in what is imported; one of your own is a file in "
            "fsl/backbones/ and a line in its __init__.py, see CONTRIBUTING.md"
        )
    name = bare
    known = _registered()
    if len(known) < FEWEST:
        from fsl.backbones import backbone_names

        known = frozenset(backbone_names())
    if name.partition(".")[0] not in known and name not in _renamed():
        raise unknown("backbone", name, [*also, *OWN, *known], "transduce list backbones")


@cache
def _source() -> str:
    spec = importlib.util.find_spec("timm")
    if spec is None or spec.origin is None:
        return ""
    models = pathlib.Path(spec.origin).parent / "models"
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(models.glob("*.py")))


@cache
def _registered() -> frozenset[str]:
    return frozenset(re.findall(r"^@register_model\s+def (\w+)\(", _source(), flags=re.MULTILINE))


@cache
def _renamed() -> frozenset[str]:
    """Former names of models, which timm still takes."""
    return frozenset(re.findall(r"^\s+'([\w.]+)':", _source(), flags=re.MULTILINE))
