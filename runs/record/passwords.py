"""Removal of users and passwords from the addresses of databases and servers, for public output."""

import os
import re
from urllib.parse import unquote

_USER = re.compile(r"(?<=://)[^\s'\"<>]*@(?=[^\s/@])")


def without_passwords(text: str) -> str:
    """Return a text without the users and passwords of addresses: `scheme://user:password@host` becomes `scheme://host`.

    Of the record's own address, MLFLOW_TRACKING_URI, they and the options after the question mark are removed wherever
    they occur: its password may contain any character.
    """
    address = os.environ.get("MLFLOW_TRACKING_URI", "").partition("://")[2]
    place, mark, options = address.partition("?")
    user, at, _ = (place if "@" in place else address).rpartition("@")
    for secret in filter(None, (user + at, mark + options)):
        text = text.replace(secret, "").replace(unquote(secret), "")
    return _USER.sub("", text) if "://" in text else text
