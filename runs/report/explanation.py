"""The docstring of a class as paragraphs, formulas and fields."""

import inspect
import itertools
import re
from dataclasses import dataclass

WIDTH = 116  # approximate maximum length of a docstring's line


@dataclass(frozen=True)
class Block:
    """A paragraph, or lines whose line breaks are kept: formulas, lists of steps."""

    text: str
    formula: bool


@dataclass(frozen=True)
class Explanation:
    """A docstring in Google's format.

    Attributes:
        source: the papers, as given in the first line of the module.
        blocks: the text before `Attributes:`.
        fields: name -> description.
    """

    source: str
    blocks: tuple[Block, ...]
    fields: dict[str, str]

    @property
    def summary(self) -> str:
        """The first paragraph."""
        return self.blocks[0].text if self.blocks else ""


def explain(kind: type) -> Explanation:
    """The explanation of a class; empty if the class has no docstring of its own."""
    own = vars(kind).get("__doc__") or ""
    text, _, attributes = inspect.cleandoc(own).partition("\nAttributes:\n")
    width = WIDTH - min((len(line) - len(line.lstrip()) for line in own.splitlines()[1:] if line.strip()), default=0)
    blocks = tuple(_block(part, width) for part in re.split(r"\n\s*\n", text) if part.strip())
    module = inspect.getmodule(kind)
    source = inspect.cleandoc((module and module.__doc__) or "").partition("\n")[0]
    return Explanation(source, blocks, _fields(attributes))


def _block(text: str, width: int) -> Block:
    lines = text.strip("\n").split("\n")
    indented = all(line.startswith("  ") for line in lines)
    if indented or _broken_on_purpose(lines, width):
        return Block(inspect.cleandoc("\n" + text), formula=True)
    return Block(" ".join(line.strip() for line in lines), formula=False)


def _broken_on_purpose(lines: list[str], width: int) -> bool:
    """Whether a line ends although the first word of the next line would have fitted on it."""
    pairs = itertools.pairwise(lines)
    return any(len(line) + 1 + len(after.split(maxsplit=1)[0]) < width for line, after in pairs if after.strip())


def _fields(text: str) -> dict[str, str]:
    """The entries of an `Attributes:` section: indented by four spaces, continuation lines by more."""
    section = re.split(r"\n(?=\S)", text)[0]  # the next section begins without indentation
    entries = re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(about.split()) for name, about in entries}
