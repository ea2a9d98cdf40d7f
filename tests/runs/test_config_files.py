"""What stands in configs/, and the classes of plug-ins as the settings see them."""

import pytest

from runs.config import groups
from runs.config.configs import ClusterConfig, EvaluateConfig, parse
from runs.config.source import REQUIRED, describe, freeze
from runs.config.yaml_files import read

FILES = [(group, path.stem) for group in groups.GROUPS for path in sorted((groups.folder() / group).glob("*.yaml"))]


@pytest.mark.parametrize(("group", "name"), FILES)
def test_a_preset_lists_only_what_differs_and_builds(group, name):
    lines = read(groups.folder() / group / f"{name}.yaml")
    choice = groups.option(group, name)
    base, plugin = lines.pop("base", None), lines.pop("name", None)
    below = groups.option(group, base).options if base else groups.described(group, choice.plugin).defaults
    assert [key for key, value in lines.items() if below[key] == freeze(value)] == []
    assert lines or plugin or base or name == "default"
    assert set(choice.options) == set(groups.described(group, choice.plugin).hints)
    choice.build()


PLUGINS = [
    (group.name, name)
    for group in groups.GROUPS.values()
    if group.plugins and group.name != "target"
    for name in group.plugins.table
]


@pytest.mark.parametrize(("group", "name"), PLUGINS)
def test_the_source_of_a_class_says_what_the_class_is(group, name):
    kind = groups.GROUPS[group]
    found = groups.described(group, name)
    real = describe(groups.load(kind, name), kind.decided)
    assert found.defaults == real.defaults
    assert {key: str(hint) for key, hint in found.hints.items()} == {key: str(hint) for key, hint in real.hints.items()}
    undocumented = found.defaults.keys() - found.fields.keys()
    assert undocumented <= ({"max_iter", "tol"} if name == "kmeans" else set())
    assert found.about


@pytest.mark.parametrize(("group", "name"), [*PLUGINS, ("training", "default")])
def test_the_command_line_and_python_have_the_same_defaults(group, name):
    choice = groups.option(group, name)
    given = {field: value for field, value in choice.options.items() if value == REQUIRED}
    built, plain = choice.build(), groups.load(groups.GROUPS[group], choice.plugin)(**given)
    if groups.GROUPS[group].decided is not None:
        built, plain = built.get_params(), plain.get_params()
    assert built == plain


@pytest.mark.parametrize("name", [f for g, f in FILES if g == "strategy" and f.endswith("_as_published")])
def test_as_published_is_the_preset_of_the_code(name):
    built = groups.option("strategy", name).build()
    assert built == type(built).as_published()


@pytest.mark.parametrize("name", groups.names("experiment"))
def test_every_experiment_resolves(name):
    schema = ClusterConfig if name.startswith(("entropy", "xsdc")) else EvaluateConfig
    found = parse(schema, [f"experiment={name}"])
    assert found
    for config in found:
        chosen = config.method if isinstance(config, ClusterConfig) else config.strategy
        assert all(point.build() is not None for point in chosen.points())


def test_an_option_in_whose_place_another_is_typed_need_not_be_here(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("benchmark: ./gone.py:Mine\nstrategy: simpleshot\n")
    (config,) = parse(EvaluateConfig, [f"experiment={path}", "benchmark=glyphs"])
    assert config.benchmark.name == "glyphs"
