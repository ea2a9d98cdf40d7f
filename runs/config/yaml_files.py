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
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"found duplicate key {key.value}", key.start_mark
                    )
                seen.add(key.value)
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
        ValueError: it is none, has tags or merge keys, or is nested too deep or holds too much once its aliases are
            written out.
    """
    try:
        _check_events(text)
        content = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    size, depth = _measure(content, {})
    if depth > DEEPEST:
        raise ValueError(_TOO_DEEP)
    if size > LARGEST:
        raise ValueError(f"more than {LARGEST:,} values once its aliases are written out")
    return content


_TOO_DEEP = f"more than {DEEPEST} lists or mappings inside each other"


def _check_events(text: str) -> None:
    """Refuse what would be costly, or no plain data, before anything is made of it."""
    depth = 0
    event: Any
    for event in yaml.parse(text, BASE):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(_TOO_DEEP)
        refused = ""
        if getattr(event, "tag", None) is not None:
            refused = f"the tag {event.tag}; leave it out"
        elif getattr(event, "value", None) == "<<" and event.implicit[0]:
            refused = "the merge key <<; write its lines out"
        if refused:
            raise ValueError(f"line {event.start_mark.line + 1}: {refused}")


def _measure(value: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values there are, and how many lists or mappings inside each other; what stands in several places is
    counted in each."""
    if not isinstance(value, (dict, list)):
        return 1, 0
    if id(value) not in known:
        known[id(value)] = LARGEST, DEEPEST  # of what holds itself
        items = [_measure(item, known) for item in (value.values() if isinstance(value, dict) else value)]
        known[id(value)] = 1 + sum(size for size, _ in items), 1 + max((depth for _, depth in items), default=0)
    return known[id(value)]
