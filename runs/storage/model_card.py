"""Short model cards in the form of Hugging Face: a YAML header and a few lines, stored beside a file of weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clustering.files.regular import head_of

CARD = "README.md"
HEAD = "---\nlibrary_name: transduce\n"
IMAGENET = (
    "If it was trained on ImageNet, it has seen the novel classes of mini- and tiered-ImageNet: accuracies on them are "
    "not those of few-shot learning."
)
TERMS = "The pictures have licences of their own; no licence of the weights is stated."


def model_card(title: str, summary: str, facts: Mapping[str, Any], use: str, limits: Sequence[str] = ()) -> str:
    """Return the card of a file of weights or features as Markdown.

    Args:
        title: the heading.
        summary: what the file is, in one or two sentences.
        facts: origin of the file by name: benchmark, backbone, fingerprints, accuracies.
        use: the command that uses the file.
        limits: unsuitable uses, one sentence each.
    """
    import yaml

    from runs.record.code_version import code_version

    header = {"tags": ["few-shot-learning"], "transduce": {**facts, "code": code_version()}}
    about = yaml.safe_dump(header, sort_keys=False, allow_unicode=True, width=1000)
    listed = "\n".join(f"- {limit}" for limit in (*limits, TERMS))
    return f"{HEAD}{about}---\n\n# {title}\n\n{summary}\n\n    {use}\n\n{listed}\n"


def is_card(path: Path) -> bool:
    """Return whether a file is a card written by this program."""
    return head_of(path).startswith(HEAD.encode())


def folded_in_words(folded: Sequence[str]) -> str:
    """A sentence on biases that were merged into running means."""
    return (
        f"{len(folded)} biases of convolutions were merged into the running means of the normalisation that follows; "
        "the output of the network is the same"
    )
