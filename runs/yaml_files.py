"""YAML as plain data: nothing is filled in, nothing is made but lists, texts and numbers, nothing grows without end."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

DEEPEST = 30  # lists and mappings inside each other
LARGEST = 1_000_000  # values in a file
BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(BASE):  # type: ignore[misc]
    """As YAML 1.2 has it, 1e-3 is a number and a date is text; a key that is there twice is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"found duplicate key {twice}", node.start_mark)
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":float"))]
    for letter, resolvers in BASE.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{_NUMBER.pattern})$"), list("-+0123456789."))


def parse_yaml(text: str) -> Any:
    """The content of a YAML file.

    Raises:
        ValueError: it is none, is nested too deep, or holds too much once its aliases are written out.
    """
    try:
        _check_depth(text)
        content = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if _size(content, {}) > LARGEST:
        raise ValueError(f"more than {LARGEST:,} values once its aliases are written out")
    return content


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, BASE):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} lists or mappings inside each other")


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values there are; what stands in several places is counted in each."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        known[id(value)] = LARGEST  # of what holds itself
        items = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(item, known) for item in items)
    return known[id(value)]
