"""Addresses of databases and servers as anybody may see them: without user and password."""

import re

# What is before the @ of the host; the second form is a password with slashes in it, but no port with a path behind it.
_BEFORE_HOST = re.compile(r"(?<=://)(?:[^\s/'\"<>]*|[^\s/'\"<>@:]*:(?!\d+[/?#])[^\s'\"<>]*)@(?=[^\s/@])")
_PARAMETER = re.compile(r"(?<=[?&])((?:ssl)?passw(?:or)?d|pwd|token)=[^&\s'\"<>]*", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """A text in which every `scheme://user:password@host` is `scheme://host`, and no `?password=` has a value."""
    if "://" not in text:
        return text
    return _PARAMETER.sub(r"\1=***", _BEFORE_HOST.sub("", text))
