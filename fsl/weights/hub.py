"""The Hugging Face hub: whether downloads are allowed, and the error for weights that are absent."""

import os

from clustering.foundation.errors import InputError


def offline() -> bool:
    """Whether downloads are forbidden; see `fsl.backbones.registry` for the default."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def absent(name: str, place: str) -> InputError:
    """The error for weights that are not on this machine.

    Args:
        name: the network.
        place: the source of the weights.
    """
    by_file = "download them elsewhere and give the file (pretrained=FILE; in Python weights=FILE)"
    if offline():
        remedy = f"set HF_HUB_OFFLINE=0 to allow downloads, or {by_file}"
    else:
        remedy = f"downloading them failed; {by_file}"
    return InputError(f"{name}: its weights ({place}) are not on this machine; {remedy}")
