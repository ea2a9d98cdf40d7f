"""Addresses of databases and servers as anybody may see them: without user and password."""

import functools
import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

# What is before the @ of the host; the second form is a password with slashes in it, but no port with a path behind it.
_BEFORE_HOST = re.compile(r"(?<=://)(?:[^\s/'\"<>]*|[^\s/'\"<>@:]*:(?!\d+[/?#])[^\s'\"<>]*)@(?=[^\s/@])")
_SECRET = r"[\w.-]*(?:passw(?:or)?d|pwd|token|secret|api_?key|credential)[\w.-]*"
_PARAMETER = re.compile(rf"(?<=[?&])({_SECRET})=[^&\s'\"<>]*", re.IGNORECASE)
# The same in one address, where no text around it ends it: any character may be in a password.
_USER = re.compile(r"[^:]*://([^/@?]*:[^@]*@(?:[^/?]*@)*|[^/?]*@)", re.DOTALL)
_WHOLE_PARAMETER = re.compile(rf"(?<=[?&])({_SECRET})=([^&]*)", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """A text in which every `scheme://user:password@host` is `scheme://host`, and no `?password=` has a value.

    Of the record's own address, MLFLOW_TRACKING_URI, user and password are left out wherever they stand.
    """
    for secret, shown in _secrets(os.environ.get("MLFLOW_TRACKING_URI", "")).items():
        text = text.replace(secret, shown)
    if "://" not in text:
        return text
    return _PARAMETER.sub(r"\1=***", _BEFORE_HOST.sub("", text))


@functools.lru_cache(maxsize=8)
def _secrets(address: str) -> Mapping[str, str]:
    """What an address has in secrets, as it is written and as it is meant, with what is shown instead."""
    found = {}
    user = _USER.match(address)
    if user:
        found = {user[1]: "", unquote(user[1]): ""}
    for name, value in _WHOLE_PARAMETER.findall(address):
        if value:
            found |= {f"{name}={value}": f"{name}=***", f"{name}={unquote(value)}": f"{name}=***"}
    return found
