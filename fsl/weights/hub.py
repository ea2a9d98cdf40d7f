"""The Hugging Face hub: whether downloads are allowed, and whether it answers. Without these checks, its client retries
for a minute."""

import os

from clustering.foundation.errors import InputError

REACHED = 5.0
"""Timeout for the first request, in seconds."""


def offline() -> bool:
    """Whether downloads are forbidden; see `fsl.backbones.registry` for the default."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def check_reachable(name: str, repository: str, file: str) -> None:
    """Check with one request that weights can be downloaded.

    Args:
        name: the network, for the message.
        repository, file: a repository of the hub and one of its files.

    Raises:
        InputError: downloads are forbidden, or the hub does not answer.
    """
    if offline():
        raise absent(name, f"huggingface.co/{repository}")
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError

    try:
        get_hf_file_metadata(hf_hub_url(repository, file), timeout=REACHED)
    except HfHubHTTPError:
        return  # the hub has answered
    except Exception as error:  # the type depends on the version of the hub's HTTP client
        raise absent(name, f"huggingface.co/{repository}") from error


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
