"""YAML files that are hostile, or no plain data, are refused."""

import pytest

from runs.config.yaml_files import parse_yaml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!python/object/apply:os.system [echo]", "python/object"),
        ("a: !mine {x: 1}", "!mine"),
        ("a: 1\nb: 2\na: 3", "duplicate key a"),
        ("k0: &k0 [1]\n" + "".join(f"k{i}: &k{i} [*k{i - 1}]\n" for i in range(1, 1300)), "limit|nested"),
        ("a: &a [*a]", "recursive"),
        ("[" * 40 + "]" * 40, "nested lists"),
        ("a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 25)), "limit"),
        ("a: [1", "line 1"),
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
