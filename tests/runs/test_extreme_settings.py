"""Settings that no run can take: each is an `InputError` at once, and nothing outside a file gets into its values."""

import pytest

from clustering.foundation.errors import InputError
from runs.config import groups
from runs.config.configs import ClusterConfig, EvaluateConfig, TuneConfig, parse
from runs.config.groups import Choice
from runs.config.tuning_protocol import steps_of
from runs.config.yaml_files import parse_yaml
from runs.console.endings import explain
from runs.stages.clustering.selections import selection_of

FILLED_IN = ("${oc.env:SECRET}", "${seed}", "a ${oc.decode:x} b", "${", r"\${a} ${b}")


def build(config: EvaluateConfig) -> None:
    for choice in config.choices().values():
        choice.build()


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")


@pytest.mark.parametrize("text", FILLED_IN)
@pytest.mark.parametrize("form", ["tuning: {}\n", "each:\n- {{tuning: {}}}\n", "shot: [1, {}]\n"])
def test_an_experiment_fills_nothing_in(tmp_path, text, form):
    path = tmp_path / "mine.yaml"
    path.write_text(form.format(f"'{text}'"))
    with pytest.raises(InputError) as caught:
        parse(EvaluateConfig, [f"experiment={path}"])
    assert str(path) in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_no_other_file_of_settings_does(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("laplacianshot:\n- {split: base, grid: {transform: ['${oc.env:SECRET}', UN]}}\n")
    with pytest.raises(InputError, match=r"mine\.yaml: laplacianshot"):
        parse(TuneConfig, ["strategy=laplacianshot", f"tuning={path}"])
    with pytest.raises(InputError, match=r"mine\.yaml: laplacianshot"):
        steps_of(str(path), groups.option("strategy", "laplacianshot"))
    path.write_text("kmeans: {init: ['${oc.env:SECRET}']}\n")
    (config,) = parse(ClusterConfig, ["method=kmeans", f"selection={path}"])
    with pytest.raises(InputError, match=r"mine\.yaml: kmeans\.init"):
        selection_of(config)


@pytest.mark.parametrize(("opened", "closed"), ["[]", "{}"])
def test_brackets_without_end_are_a_mistake(tmp_path, opened, closed):
    path = tmp_path / "deep.yaml"
    path.write_text(f"shot: {opened * 5000}{closed * 5000}\n")
    with pytest.raises(InputError, match=r"deep\.yaml"):
        parse(EvaluateConfig, [f"experiment={path}"])
    with pytest.raises(InputError, match="shot"):
        parse(EvaluateConfig, [f"shot={opened * 5000}{closed * 5000}"])


@pytest.mark.parametrize(
    "setting",
    [
        *(f"weight={value}" for value in ("1e300", "-1e300", "1e-300", "5e-324", "1e16", "9" * 5000)),
        *(f"{key}={value}" for key in ("n_neighbors", "seed", "tasks") for value in ("9" * 20, "9" * 5000)),
    ],
)
def test_a_number_of_an_impossible_size(setting):
    with pytest.raises(InputError, match=setting[:4]):
        build(*parse(EvaluateConfig, ["strategy=laplacianshot", setting]))


@pytest.mark.parametrize(
    ("group", "name", "options"),
    [
        pytest.param("benchmark", "glyphs", {"samples": 10**9}, marks=pytest.mark.slow),  # draws every letter once
        ("dataset", "spirals", {"points": 10**12}),
        ("dataset", "bars", {"points": 10**12}),
        ("dataset", "predictions", {"entries": 10**13}),
    ],
)
def test_more_than_the_memory_holds(group, name, options):
    data = Choice(group, name, {**groups.option(group, name).options, **options}).build()
    with pytest.raises((InputError, MemoryError)) as caught:
        data.read(*(["base"] if group == "benchmark" else []))
    text, code = explain(caught.value)
    assert code == 2
    assert "memory" in text.lower() or "allocate" in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: !!python/object/apply:os.system [echo]", "python/object"),
        ("a: !mine {x: 1}", "!mine"),
        ("a: 1\nb: 2\na: 3", "duplicate key a"),
        ("k0: &k0 [1]\n" + "".join(f"k{i}: &k{i} [*k{i - 1}]\n" for i in range(1, 1300)), "limit|nested"),
        ("a: &a [*a]", "recursive"),
        ("a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 25)), "limit"),
        ("a: [1", "line 1"),
    ],
)
def test_yaml_that_is_hostile_or_no_plain_data(text, words):
    with pytest.raises(ValueError, match=words):
        parse_yaml(text)
