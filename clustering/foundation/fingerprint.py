"""Identities of data: what changes when the content does."""

import hashlib

Part = bytes | bytearray | memoryview | str | int


class Fingerprint:
    """SHA-256 of parts, each set apart by its length; `str` gives its first 16 hexadecimal digits, at any time."""

    def __init__(self, *parts: Part) -> None:
        self._digest = hashlib.sha256()
        for part in parts:
            self.add(part)

    def __str__(self) -> str:
        return self._digest.hexdigest()[:16]

    def add(self, part: Part) -> None:
        """One more part."""
        # names of files may be no UTF-8: Python has surrogates for such bytes
        data = part if isinstance(part, (bytes, bytearray, memoryview)) else str(part).encode("utf-8", "surrogatepass")
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        self.begin(size)
        self.go_on(data)

    def begin(self, size: int) -> None:
        """One more part, of that many bytes, which come piece by piece."""
        self._digest.update(size.to_bytes(8, "big"))

    def go_on(self, piece: bytes | bytearray | memoryview) -> None:
        """The next piece of the part that was begun."""
        self._digest.update(piece)


def fingerprint(*parts: Part) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the parts, each set apart by its length."""
    return str(Fingerprint(*parts))
