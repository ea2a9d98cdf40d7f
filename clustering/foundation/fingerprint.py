"""Fingerprints of data, which change when the content does."""

import hashlib

Part = bytes | bytearray | memoryview | str | int


class Fingerprint:
    """SHA-256 of parts, each delimited by its length; `str` gives the first 16 hexadecimal digits of the current
    state."""

    def __init__(self, *parts: Part) -> None:
        self._digest = hashlib.sha256()
        for part in parts:
            self.add(part)

    def __str__(self) -> str:
        return self._digest.hexdigest()[:16]

    def add(self, part: Part) -> None:
        """Add a part."""
        # file names that are not UTF-8 contain surrogates
        data = part if isinstance(part, (bytes, bytearray, memoryview)) else str(part).encode("utf-8", "surrogatepass")
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        self.begin(size)
        self.go_on(data)

    def begin(self, size: int) -> None:
        """Begin a part of this size in bytes, whose pieces follow."""
        self._digest.update(size.to_bytes(8, "big"))

    def go_on(self, piece: bytes | bytearray | memoryview) -> None:
        """Add a piece of the current part."""
        self._digest.update(piece)


def fingerprint(*parts: Part) -> str:
    """First 16 hexadecimal digits of the SHA-256 of the parts, each delimited by its length."""
    return str(Fingerprint(*parts))
