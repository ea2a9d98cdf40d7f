"""Safe YAML: plain data only (lists, mappings, strings and numbers), of limited size and depth."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

DEEPEST = 30  # nested lists and mappings
LARGEST = 1_000_000  # values in a file
BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(BASE):  # type: ignore[misc]
    """Loader with the rules of YAML 1.2: 1e-3 is a number, a date is a string, and duplicate keys are errors."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"found duplicate key {key.value}", key.start_mark
                    )
                keys.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]


_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":float"))]
    for letter, resolvers in BASE.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{_NUMBER.pattern})$"), list("-+0123456789."))


def parse_yaml(text: str) -> Any:
    """Parse the text of a YAML file.

    Raises:
        ValueError: the text is not valid YAML, has tags or merge keys, or is too large or too deeply nested after
            expanding its aliases.
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
        raise ValueError(f"more than {LARGEST:,} values after expanding aliases")
    return content


_TOO_DEEP = f"more than {DEEPEST} nested lists or mappings"


def _check_events(text: str) -> None:
    """Reject tags, merge keys and deep nesting before any object is constructed."""
    depth = 0
    event: Any
    for event in yaml.parse(text, BASE):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(_TOO_DEEP)
        refused = ""
        if getattr(event, "tag", None) is not None:
            refused = f"the tag {event.tag} is not supported; delete it"
        elif getattr(event, "value", None) == "<<" and event.implicit[0]:
            refused = "the merge key << is not supported; write its lines out"
        if refused:
            raise ValueError(f"line {event.start_mark.line + 1}: {refused}")


def _measure(value: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the number of values and the depth of nesting; aliased values are counted at each place."""
    if not isinstance(value, (dict, list)):
        return 1, 0
    if id(value) not in known:
        known[id(value)] = LARGEST, DEEPEST  # a value that contains itself
        items = [_measure(item, known) for item in (value.values() if isinstance(value, dict) else value)]
        known[id(value)] = 1 + sum(size for size, _ in items), 1 + max((depth for _, depth in items), default=0)
    return known[id(value)]
