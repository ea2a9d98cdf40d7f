"""Removal of users and passwords from the addresses of databases and servers, for public output."""

import functools
import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

# The text before the @ of the host. The second form is a password with slashes, but not a port followed by a path.
_BEFORE_HOST = re.compile(r"(?<=://)(?:[^\s/'\"<>]*|[^\s/'\"<>@:]*:(?!\d+[/?#])[^\s'\"<>]*)@(?=[^\s/@])")
_SECRET = r"[\w.-]*(?:passw(?:or)?d|pwd|token|secret|api_?key|credential)[\w.-]*"
_PARAMETER = re.compile(rf"(?<=[?&])({_SECRET})=[^&\s'\"<>]*", re.IGNORECASE)
# The same for a single address without text around it: a password may contain any character.
_USER = re.compile(r"[^:]*://([^/@?]*:[^@]*@(?:[^/?]*@)*|[^/?]*@)", re.DOTALL)
_WHOLE_PARAMETER = re.compile(rf"(?<=[?&])({_SECRET})=([^&]*)", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """Return a text without the users and passwords of addresses.

    `scheme://user:password@host` becomes `scheme://host`, and the value of `?password=` is removed. The user and
    password of the record's own address, MLFLOW_TRACKING_URI, are removed wherever they occur.
    """
    for secret, shown in _secrets(os.environ.get("MLFLOW_TRACKING_URI", "")).items():
        text = text.replace(secret, shown)
    if "://" not in text:
        return text
    return _PARAMETER.sub(r"\1=***", _BEFORE_HOST.sub("", text))


@functools.lru_cache(maxsize=8)
def _secrets(address: str) -> Mapping[str, str]:
    """Return the secrets of an address, both as written and decoded, with their replacements."""
    secrets = {}
    user = _USER.match(address)
    if user:
        secrets = {user[1]: "", unquote(user[1]): ""}
    for name, value in _WHOLE_PARAMETER.findall(address):
        if value:
            secrets |= {f"{name}={value}": f"{name}=***", f"{name}={unquote(value)}": f"{name}=***"}
    return secrets
