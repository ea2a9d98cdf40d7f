"""Random streams: every consumer derives its own from the one integer seed, by name.

Streams of different names are independent, a stream does not depend on which others were drawn, and nothing is
seeded globally. The generators are counter-based (Philox), so they give the same numbers on every machine.
"""

import hashlib

import numpy as np


def stream_key(seed: int, *names: str | int) -> int:
    """A 63-bit integer that depends on the seed and on every name, e.g. to seed a `torch.Generator`."""
    text = "\0".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The stream of these names: `stream(seed, "tasks", block)` is the same wherever and whenever it is asked for."""
    return np.random.Generator(np.random.Philox(key=stream_key(seed, *names)))
