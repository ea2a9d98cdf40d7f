"""Random streams: each consumer derives its own from a single integer seed, by name.

Streams with different names are independent, a stream does not depend on draws from others, and there is no global
seed. The generators are counter-based (Philox), so they give the same numbers on every machine.
"""

import hashlib
from typing import Any

import numpy as np

from clustering.foundation.errors import InputError


def stream_key(seed: int, *names: str | int) -> int:
    """A 63-bit integer that depends on the seed and all names, for example to seed a `torch.Generator`."""
    text = "\0".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """The stream with these names: `stream(seed, "tasks", block)` is always the same."""
    return np.random.Generator(np.random.Philox(key=stream_key(seed, *names)))


def seed_of(random_state: Any) -> int:
    """An integer seed: drawn from `random_state`, which is None, an int, a RandomState or a Generator of numpy.

    A generator advances by one draw.

    Raises:
        InputError: it is none of these.
    """
    generator = checked_generator(random_state)
    draw = generator.integers if isinstance(generator, np.random.Generator) else generator.randint
    return int(draw(np.iinfo(np.int32).max))


def checked_generator(random_state: Any) -> Any:
    """The generator of a `random_state`.

    Raises:
        InputError: it is not as in `seed_of`.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    from sklearn.utils import check_random_state  # slow to import

    try:
        return check_random_state(random_state)
    except ValueError as error:
        raise InputError(f"random_state must be None, an integer or a numpy generator, not {random_state!r}") from error
