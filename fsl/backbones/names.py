"""Names of backbones. Those of timm are read from its source: an error about a name should not wait for its import."""

import importlib.util
import pathlib
import re
from functools import cache

from clustering.foundation.errors import InputError, unknown
from fsl.backbones import BACKBONES, OWN

TIMM = "timm:"  # optional prefix of the name of a timm backbone
OPEN_CLIP = "open_clip:"  # prefix of the name of a network of open_clip
ANY = r"(hf-hub:|hf_hub:|local-dir:).*|.*\.py:\w+|[\w.]+:\w+"  # what only timm, or the class of a user, can check


def check_backbone(name: str) -> None:
    """Check that a backbone is a network of this project, a plug-in, or a network of timm.

    Raises:
        InputError: the name is unknown; the message suggests the closest.
    """
    bare = name.removeprefix(TIMM)
    if bare != name and bare in OWN:
        raise InputError(f"backbone={name}: this network belongs to this project, not to timm; write backbone={bare}")
    if name.startswith(OPEN_CLIP):
        raise InputError(
            f"backbone={name}: here, features of a network of open_clip are read from a file; write it with transduce "
            f"import features FOLDER backbone={name} pretrained=TAG, and give features=FILE"
        )
    if name in BACKBONES.names() or (name == bare and re.fullmatch(ANY, name)):
        return
    if bare not in timm_names() and bare.partition(".")[0] not in timm_names():
        known = [*OWN, *(other for other in timm_names() if "." not in other)]
        raise unknown("backbone", bare, known, "transduce list backbones")


@cache
def timm_names() -> frozenset[str]:
    """Return the names of timm's models, and the former names that timm still accepts."""
    spec = importlib.util.find_spec("timm")
    models = pathlib.Path(spec.origin).parent / "models" if spec and spec.origin else pathlib.Path()
    source = "\n".join(path.read_text(encoding="utf-8") for path in models.glob("*.py"))
    return frozenset(re.findall(r"(?m)^(?:@register_model\s+def |\s+')([\w.]+)(?:\(|':)", source))
