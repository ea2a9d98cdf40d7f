"""YAML files that are hostile, or no plain data: they are refused, in time that grows as the text does."""

import pytest

from runs.config.yaml_files import DEEPEST, parse_yaml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a {x: 1}\nb: {<<: *a}", "line 2.*<<"),
        ("a: &a {x: 1}\nb: {<<: [*a, *a]}", "<<"),
        ("a: !!set {x, y}", "set"),
        ("a: !!binary aGVsbG8=", "binary"),
        ("a: !!bool abc", "bool"),
        ("a: !mine {x: 1}", "!mine"),
        ("a: ! 1", "tag"),
        ("a: 1\nb: 2\na: 3", "duplicate key a"),
        ("k0: &k0 [1]\n" + "".join(f"k{i}: &k{i} [*k{i - 1}]\n" for i in range(1, 1300)), f"{DEEPEST} nested lists"),
        ("a: &a [*a]", "nested lists"),
        ("[" * 40 + "]" * 40, "nested lists"),
        ("a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 25)), "values after"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse_yaml(text)


def test_plain_data():
    assert parse_yaml("a: '<<'\nb: [1, 1e-3, true, null, 2024-01-01]\nc: &c {x: y}\nd: *c") == {
        "a": "<<",
        "b": [1, 1e-3, True, None, "2024-01-01"],
        "c": {"x": "y"},
        "d": {"x": "y"},
    }


def test_keys_of_any_number_are_compared_by_hash(monkeypatch):
    """A list would be looked through once a key."""
    seen = []

    class Key(str):
        __slots__ = ()

        def __eq__(self, other):
            seen.append(other)
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    import yaml

    from runs.config import yaml_files

    loader = yaml_files._Loader("")
    nodes = [
        (yaml.ScalarNode("tag:yaml.org,2002:str", Key(i)), yaml.ScalarNode("tag:yaml.org,2002:str", "x"))
        for i in range(300)
    ]
    assert len(loader.construct_mapping(yaml.MappingNode("tag:yaml.org,2002:map", nodes))) == 300
    assert len(seen) < 3000
