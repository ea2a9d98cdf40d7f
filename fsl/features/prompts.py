"""Class names as users give them, and their texts by prompts."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from clustering.foundation.errors import InputError

PROMPTS = (
    "itap of a {}.",
    "a bad photo of the {}.",
    "a origami {}.",
    "a photo of the large {}.",
    "a {} in a video game.",
    "art of the {}.",
    "a photo of the small {}.",
)
"""Default prompts: the seven templates that Radford et al. (2021) found sufficient for ImageNet, see the notebook
"Prompt Engineering for ImageNet" of CLIP."""


def texts_of(names: Sequence[str], prompts: Sequence[str]) -> list[str]:
    """The K P texts of K class names, those of the first class first. Underscores in names become spaces.

    Args:
        names: K class names.
        prompts: P templates, in which {} stands for the name.

    Raises:
        InputError: there are no prompts, or one is without {}.
    """
    if isinstance(prompts, str) or not len(prompts):
        raise InputError(
            f"prompts must be a list of at least one template such as 'a photo of a {{}}.', not {prompts!r}"
        )
    for prompt in prompts:
        if "{}" not in str(prompt):
            raise InputError(f"the prompt {str(prompt)!r} has no {{}}, which stands for the class name; add it")
    return [str(prompt).replace("{}", str(name).replace("_", " ")) for name in names for prompt in prompts]


def distinct(names: Sequence[str]) -> list[str]:
    """Class names as strings, checked.

    Raises:
        InputError: there are fewer than two, one is empty, or one is given twice.
    """
    given = [names] if isinstance(names, str) else ["" if pd.isna(name) else str(name) for name in names]
    if len(given) < 2:
        raise InputError("at least two class names are required")
    empty = next((place for place, name in enumerate(given, 1) if not name.strip()), None)
    if empty is not None:
        raise InputError(f"class name {empty} of {len(given)} is empty; write its name, or remove it")
    repeated = [name for name, count in Counter(given).items() if count > 1]
    if repeated:
        raise InputError(f"the class name {repeated[0]!r} is given twice; remove one")
    return given
