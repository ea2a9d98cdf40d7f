"""Class names and prompts: files with one per line, and the texts of a class."""

from collections.abc import Sequence
from pathlib import Path

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


def read_lines(path: Path, key: str) -> tuple[str, ...]:
    """The lines of a UTF-8 text file, without empty ones and surrounding spaces.

    Args:
        path: the file.
        key: what the file is for, for messages.

    Raises:
        InputError: the file cannot be read, is no text, or is empty.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{key}: {path}: cannot be read ({error.strerror}); give a text file") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{key}: {path}: not a text file in UTF-8; save it as such, with one entry per line"
        ) from error
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not lines:
        raise InputError(f"{key}: {path} is empty; write one entry per line")
    return lines
