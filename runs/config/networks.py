"""Names of backbones. Those of timm are read from its source: an error about a name should not wait for its import."""

import importlib.util
import pathlib
import re
from functools import cache

from clustering.foundation.errors import InputError, unknown
from fsl.backbones import BACKBONES, OWN
from runs.config.groups import OPEN_CLIP, TIMM

HUBS = ("hf-hub:", "hf_hub:", "local-dir:")  # beginnings of names with which timm loads networks from elsewhere
FEWEST = 500  # with fewer names, timm's source could not be read, and timm is imported


def check_backbone(name: str, also: list[str]) -> None:
    """Check that a backbone is in `also`, or is a network of this project or of timm.

    Raises:
        InputError: the name is unknown; the message suggests the closest.
    """
    bare = name.removeprefix(TIMM)
    if bare != name and bare in OWN:
        raise InputError(f"backbone={name}: this network belongs to this project, not to timm; write backbone={bare}")
    if name in also or name in BACKBONES.names():
        return
    if name.startswith(OPEN_CLIP):
        raise InputError(
            f"backbone={name}: here, features of a network of open_clip are read from a file; write it with transduce "
            f"import features FOLDER backbone={name} pretrained=TAG, and give features=FILE"
        )
    if name == bare and (bare.startswith(HUBS) or _is_class(bare)):
        return  # a class of the user, or a name that only timm.create_model can check
    name = bare
    known = _registered()
    if len(known) < FEWEST:
        from fsl.backbones import backbone_names

        known = frozenset(backbone_names())
    if name.partition(".")[0] not in known and name not in _renamed():
        raise unknown("backbone", name, [*also, *OWN, *known], "transduce list backbones")


def _is_class(name: str) -> bool:
    """Return whether a name is FILE.py:NAME or module:NAME, a class or function that creates a network."""
    module, colon, attribute = name.rpartition(":")
    return (
        bool(colon)
        and attribute.isidentifier()
        and (module.endswith(".py") or re.fullmatch(r"[\w.]+", module) is not None)
    )


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
    """Return the former names of models, which timm still accepts."""
    return frozenset(re.findall(r"^\s+'([\w.]+)':", _source(), flags=re.MULTILINE))
