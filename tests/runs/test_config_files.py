"""What stands in configs/: every field of its class, the presets of the published code, experiments and backbones."""

import typing

import pytest
from runs.config.timm_names import check_backbone

from clustering.foundation.errors import InputError
from clustering.foundation.parameters import mismatch
from runs.config import groups
from runs.config import timm_names as networks
from runs.config.configs import SCHEMAS, ClusterConfig, EvaluateConfig, parse

FILES = [(group, path.stem) for group in groups.GROUPS for path in sorted((groups.folder() / group).glob("*.yaml"))]


@pytest.mark.parametrize(("group", "name"), FILES)
def test_a_file_lists_every_field_of_its_class_with_values_it_takes(group, name):
    choice = groups.option(group, name)
    if group == "backbone":
        assert choice.options == {}
        check_backbone(choice.plugin, [])
        return
    built = groups.load(groups.GROUPS[group], choice.plugin)
    estimator = groups.GROUPS[group].estimators
    hints = typing.get_type_hints(built.__init__ if estimator else built, include_extras=True)
    assert set(choice.options) == set(groups.fields_of(groups.GROUPS[group], built))
    for field, value in choice.options.items():
        assert mismatch(value, hints[field]) is None
        takes_number = mismatch(0.5, hints[field]) is None or mismatch(1.5, hints[field]) is None
        if takes_number and value is not None and not (estimator and isinstance(value, str)):  # "estimate", or a number
            assert isinstance(value, float), f"{field}: write {value}.0, or fractions are refused on the command line"
    choice.build()


BASED = [(group, name) for group, name in FILES if "base" in groups.read(groups.folder() / group / f"{name}.yaml")]


@pytest.mark.parametrize(("group", "name"), BASED)
def test_a_file_with_a_base_lists_only_what_differs(group, name):
    lines = groups.read(groups.folder() / group / f"{name}.yaml")
    base = groups.option(group, lines.pop("base"))
    assert [key for key, value in lines.items() if base.options[key] == groups.freeze(value)] == []
    assert groups.comments(group, name).keys() == groups.comments(group, base.name).keys()
    assert groups.option(group, name).plugin == (base.plugin if groups.GROUPS[group].plugins else name)


PLUGINS = ("strategy", "sampler", "benchmark", "dataset", "method", "fair_dataset", "fair_method")
NAMESAKES = [(g, f) for g, f in FILES if g in PLUGINS and f in groups.GROUPS[g].plugins.table]


@pytest.mark.parametrize(("group", "name"), [*NAMESAKES, ("training", "default")])
def test_a_file_named_like_its_class_holds_its_defaults(group, name):
    choice = groups.option(group, name)
    given = {field: value for field, value in choice.options.items() if value == groups.REQUIRED}
    built, plain = choice.build(), groups.load(groups.GROUPS[group], choice.plugin)(**given)
    if groups.GROUPS[group].estimators:
        built, plain = built.get_params(), plain.get_params()
        if group == "method" and "n_init" in plain:
            plain["n_init"] = 1  # a run makes several fits
    assert built == plain


@pytest.mark.parametrize("name", [f for g, f in FILES if g == "strategy" and f.endswith("_as_published")])
def test_as_published_is_the_preset_of_the_code(name):
    built = groups.option("strategy", name).build()
    assert built == type(built).as_published()


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("slk_mean_shift_as_published", "slk2018-ms"),
        ("slk_byproduct_as_published", "slk2018-bo"),
        ("slk_means_as_published", "journal-means"),
    ],
)
def test_methods_as_published_are_the_presets_of_the_code(name, preset):
    from clustering import SLK

    assert groups.option("method", name).build().get_params() == SLK.preset(preset).get_params()


@pytest.mark.parametrize("kind", ["mean_shift", "byproduct", "means", "medoid"])
def test_the_kinds_of_slk_differ_in_their_prototypes_alone(kind):
    from clustering import SLK

    built = groups.option("method", f"slk_{kind}").build()
    prototypes = {"means": "mean"}.get(kind, kind)
    assert built.get_params() == SLK(prototypes=prototypes).get_params()


@pytest.mark.parametrize("name", groups.names("experiment"))
def test_every_experiment_resolves(name):
    schema = ClusterConfig if name.startswith(("entropy", "xsdc")) else EvaluateConfig
    found = parse(schema, [f"experiment={name}"])
    assert found
    for config in found:
        chosen = config.method if isinstance(config, ClusterConfig) else config.strategy
        assert all(point.build() is not None for point in chosen.points())


def test_backbones_are_found_as_timm_lists_them():
    timm = pytest.importorskip("timm")
    from_timm = (name for name in timm.list_models() if timm.model_entrypoint(name).__module__.startswith("timm."))
    assert networks._registered() >= set(from_timm)
    check_backbone("resnet18.a1_in1k", [])
    with pytest.raises(InputError, match="'resnet18'"):
        check_backbone("resnet_18", [])
    with pytest.raises(InputError, match="'conv4'"):
        check_backbone("convv4", [])


@pytest.mark.parametrize("name", ["mynet:TinyConv", "mynet:conv4", "timm:mynet:TinyConv"])
def test_a_backbone_of_ones_own_is_added_in_the_folder(name):
    with pytest.raises(InputError, match="fsl/backbones/"):
        check_backbone(name, [])


def test_backbones_are_found_where_timm_is_written_otherwise(monkeypatch):
    monkeypatch.setattr(networks, "_source", lambda: "")
    monkeypatch.setattr(networks, "_registered", frozenset)
    check_backbone("resnet18", [])
    with pytest.raises(InputError, match="'resnet18'"):
        check_backbone("resnet_18", [])


def test_every_schema_builds_from_nothing():
    for schema in SCHEMAS.values():
        for config in parse(schema, []):
            for choice in config.choices().values():
                assert choice.name in (groups.SAME, "none") or all(
                    point.build() is not None for point in choice.points()
                )
