"""Random streams: each consumer derives its own from a single integer seed, by name.

Streams with different names are independent, a stream does not depend on draws from others, and there is no global
seed. The generators are counter-based (Philox), so they give the same numbers on every machine.
"""

import hashlib

import numpy as np


def stream_key(seed: int, *names: str | int) -> int:
    """A 63-bit integer that depends on the seed and all names, for example to seed a `torch.Generator`."""
    text = "\0".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The stream with these names: `stream(seed, "tasks", block)` is always the same."""
    return np.random.Generator(np.random.Philox(key=stream_key(seed, *names)))
