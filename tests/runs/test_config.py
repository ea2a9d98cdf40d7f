"""From arguments to configs: keys, groups, products, result keys."""

import dataclasses
import itertools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clustering.foundation.errors import InputError
from runs.config import groups, overrides
from runs.config.configs import Choice, ClusterConfig, EvaluateConfig, FairConfig, TrainConfig, parse

TEXT = st.one_of(st.text(max_size=20), st.text(alphabet="${}\\\\:,[] #'\"0a", max_size=8)).filter(
    lambda text: "'" not in text or '"' not in text
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    TEXT,
)


@pytest.fixture
def config_folder(tmp_path, monkeypatch):
    """A folder of presets and experiments, independent of those of the project."""
    files = {
        "benchmark/rotated": "name: omniglot\nsplit: background\n",
        "training/default": "# the defaults of the class\n",
        "training/omniglot": "epochs: 7\nmilestones: []\n",
        "strategy/preset": "name: laplacianshot\nneighbours: 5\n",
        "experiment/both": "strategy: simpleshot,laplacianshot\nshot: 1,5\nseed: 3\n",
        "experiment/heavy": "strategy: laplacianshot\nstrategy.weight: 5\n",
    }
    for name, text in files.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(groups, "folder", lambda: tmp_path)
    groups._option.cache_clear()
    yield tmp_path
    groups._option.cache_clear()


@pytest.mark.parametrize(
    ("lines", "verb"),
    [
        ("dataset: synthetic\nmethod: fair_kmeans,bera\nseed: 0,1\n", "fair"),
        ("dataset: digits\nmethod: slk_means\nmethod.n_neighbors: 5\nstarts: 3\n", "cluster"),
        ("dataset: synthetic\nfairness_weight: 0,10\n", "fair"),
    ],
)
def test_an_experiment_of_another_verb_names_the_verb_that_takes_all_of_it(tmp_path, lines, verb):
    path = tmp_path / "own.yaml"
    path.write_text(lines)
    with pytest.raises(InputError, match=f"`transduce {verb}`"):
        parse(EvaluateConfig, [f"experiment={path}"])


@pytest.mark.usefixtures("config_folder")
class TestResolution:
    def test_defaults(self):
        first, second = parse(EvaluateConfig, [])
        assert (first.strategy.name, second.strategy.name) == ("simpleshot", "laplacianshot")
        assert first.benchmark == Choice("benchmark", "glyphs", {"samples": 30, "seed": 0})
        assert first.training.name == "default"
        assert first.training.options["milestones"] == (45, 66)
        assert first.sampler == Choice("sampler", "balanced", {"way": 5, "shot": 1, "query": 15})
        assert (first.count(), first.split) == (10_000, "novel")
        assert len(parse(TrainConfig, [])) == 1

    @pytest.mark.parametrize(("benchmark", "training"), [("omniglot", "omniglot"), ("rotated", "omniglot")])
    def test_training_follows_the_benchmark(self, benchmark, training):
        (config,) = parse(TrainConfig, [f"benchmark={benchmark}"])
        assert config.training.name == training
        both = parse(TrainConfig, [f"benchmark=glyphs,{benchmark}"])
        assert [one.training.name for one in both] == ["default", training]
        (config,) = parse(TrainConfig, [f"benchmark={benchmark}", "training=default"])
        assert config.training.name == "default"

    def test_the_last_typed_key_is_fastest(self):
        found = parse(EvaluateConfig, ["shot=1,5", "strategy=laplacianshot", "seed=0,1"])
        assert [(config.sampler.options["shot"], config.seed) for config in found] == [(1, 0), (1, 1), (5, 0), (5, 1)]

    def test_fields_with_and_without_their_group(self):
        bare, dotted = (
            parse(EvaluateConfig, ["strategy=laplacianshot", f"{key}=2"]) for key in ("weight", "strategy.weight")
        )
        assert bare == dotted
        assert bare[0].strategy.options["weight"] == 2.0
        assert isinstance(bare[0].strategy.options["weight"], float)

    def test_a_field_of_some_options_is_varied_for_those(self):
        found = parse(EvaluateConfig, ["weight=0.1,1"])
        assert [(c.strategy.name, c.strategy.options.get("weight")) for c in found] == [
            ("simpleshot", None),
            ("laplacianshot", 0.1),
            ("laplacianshot", 1.0),
        ]

    def test_top_level_keys_come_before_fields_of_the_same_name(self):
        (config,) = parse(TrainConfig, ["seed=4"])
        assert (config.seed, config.benchmark.options["seed"]) == (4, 0)
        (config,) = parse(TrainConfig, ["benchmark.seed=4"])
        assert (config.seed, config.benchmark.options["seed"]) == (0, 4)

    def test_lists_are_no_product(self):
        for text in ("[1, 2]", "1,2"):
            (config,) = parse(TrainConfig, [f"milestones={text}"])
            assert config.training.options["milestones"] == (1, 2)
        found = parse(TrainConfig, ["milestones=[1, 2],[3]"])
        assert [config.training.options["milestones"] for config in found] == [(1, 2), (3,)]

    def test_audits_are_one_set(self):
        forms = {
            "best_permutation": 1,
            "[best_permutation]": 1,
            "per_true_class,best_permutation": 2,
            "[best_permutation, per_true_class, best_permutation]": 2,
            "none": 0,
            "null": 0,
            "[]": 0,
        }
        for text, count in forms.items():
            (config,) = parse(EvaluateConfig, ["strategy=simpleshot", f"audit={text}"])
            assert config.audit == ("best_permutation", "per_true_class")[:count]
        found = parse(EvaluateConfig, ["strategy=simpleshot", "audit=[],[per_true_class]"])
        assert [config.audit for config in found] == [(), ("per_true_class",)]

    def test_experiments_are_put_before_what_is_typed(self):
        assert len(parse(EvaluateConfig, ["experiment=both"])) == 4
        found = parse(EvaluateConfig, ["shot=10", "experiment=both"])
        assert [(config.sampler.options["shot"], config.seed) for config in found] == [(10, 3)] * 2
        (config,) = parse(EvaluateConfig, ["experiment=heavy", "weight=6"])
        assert config.strategy.options["weight"] == 6
        assert len(parse(EvaluateConfig, ["experiment=both,heavy"])) == 5

    def test_settings_of_an_experiment_vary_together(self, config_folder):
        path = config_folder / "experiment" / "pairs.yaml"
        path.write_text("strategy: simpleshot\nseed: 1,2\neach:\n- {shot: 1, query: 15}\n- {shot: 5, query: 10}\n")
        found = parse(EvaluateConfig, ["experiment=pairs"])
        of = [(config.sampler.options["shot"], config.sampler.options["query"], config.seed) for config in found]
        assert of == [(1, 15, 1), (1, 15, 2), (5, 10, 1), (5, 10, 2)]
        assert len(parse(EvaluateConfig, ["experiment=pairs", "seed=7"])) == 2
        assert len(parse(EvaluateConfig, ["experiment=pairs", "shot=2", "query=1,3"])) == 4
        for typed in ("shot=2", "sampler.query=3"):
            with pytest.raises(InputError, match="pairs: shot, query"):
                parse(EvaluateConfig, ["experiment=pairs", typed])
        for wrong in ("{shot: 1}", "[]", "[1, 5]"):
            path.write_text(f"each: {wrong}\n")
            with pytest.raises(InputError, match="pairs: each"):
                parse(EvaluateConfig, ["experiment=pairs"])

    def test_a_preset_keeps_its_name_and_builds_its_plugin(self):
        (config,) = parse(EvaluateConfig, ["strategy=preset"])
        assert (config.strategy.name, config.strategy.plugin) == ("preset", "laplacianshot")
        assert config.flat()["strategy.name"] == "laplacianshot"
        (by_hand,) = parse(EvaluateConfig, ["strategy=laplacianshot", "neighbours=5"])
        assert by_hand.flat() != config.flat()
        assert by_hand.result_keys() == config.result_keys()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["benchmark=glyfs"], ["benchmark", "'glyphs'"]),
            (["strategy=laplaceshot"], ["strategy", "'laplacianshot'"]),
            (["experiment=bothe"], ["experiment", "'both'"]),
            (["shots=1"], ["'shots'", "'shot'"]),
            (["weigth=1"], ["'weigth'", "'weight'"]),
            (["strategy.weigth=1"], ["strategy", "'weigth'", "'weight'"]),
            (["strategy.zzz=1"], ["zzz", "neighbours", "transform"]),
            (["zzzzzz=1"], ["zzzzzz", "--help"]),
            (["stratgy.weight=1"], ["stratgy.weight", "strategy.weight"]),
            (["shot=one"], ["shot", "integer", "'one'"]),
            (["shot=1.5"], ["shot", "integer"]),
            (["shot=true"], ["shot", "integer"]),
            (["shot=[1, 5]"], ["shot", "integer"]),
            (["seed=-1"], ["seed", "at least 0"]),
            (["split=test"], ["split", "novel"]),
            (["audit=permutation"], ["audit", "best_permutation"]),
            (["benchmark=omniglot", "split=background"], ["split", "benchmark.split"]),
            (["device=gpu"], ["device", "cuda"]),
            (["weight=much"], ["weight", "a number", "much"]),
            (["neighbours=2.5"], ["neighbours", "an integer"]),
            (["jitter=much"], ["jitter", "a number"]),
            (["nesterov=1"], ["nesterov", "true or false"]),
            (["milestones=[3, x]"], ["milestones", "an integer"]),
            (["shot=1", "shot=5"], ["shot", "twice"]),
            (["weight=1", "strategy.weight=5"], ["weight", "strategy.weight", "twice"]),
            (["root=/x"], ["root", "benchmark=mini"]),
            (["benchmark", "glyphs"], ["benchmark=glyphs"]),
            (["shot=1", "benchmark"], ["benchmark=VALUE"]),
            (["nonsense"], ["nonsense", "key=value"]),
            (["shot="], ["shot", "no value"]),
            (["shot=1,,5"], ["shot", "empty"]),
            (["milestones=[1,2"], ["milestones", "]"]),
            (["+shot=1"], ["shot=VALUE"]),
            (["backbone.depth=3"], ["depth", "conv4"]),
            (["strategy=no_module_here:Thing"], ["no_module_here", "import"]),
        ],
    )
    def test_mistakes_are_named_with_their_remedy(self, arguments, words):
        with pytest.raises(InputError) as caught:
            parse(EvaluateConfig, arguments)
        for word in words:
            assert word in str(caught.value)

    def test_keys_of_another_verb_are_told_apart(self):
        for argument in ("shot=1", "strategy=simpleshot", "strategy.weight=1"):
            with pytest.raises(InputError, match="transduce evaluate"):
                parse(TrainConfig, [argument])

    def test_a_field_of_two_groups_needs_its_group(self, config_folder):
        (config_folder / "mine.py").write_text(
            "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Other:\n    epochs: int = 3\n"
        )
        name = f"strategy={config_folder / 'mine.py'}:Other"
        with pytest.raises(InputError, match=r"strategy\.epochs or training\.epochs"):
            parse(EvaluateConfig, [name, "epochs=3"])
        (config,) = parse(EvaluateConfig, [name, "strategy.epochs=4"])
        assert config.training.options["epochs"] == 90

    @pytest.mark.parametrize(
        ("content", "named"), [("strategy:\n  laplacianshot:\n    weight: 1\n", "`strategy.FIELD: value`")]
    )
    def test_how_an_experiment_file_names_its_choices(self, tmp_path, content, named):
        path = tmp_path / "mine.yaml"
        path.write_text(content)
        with pytest.raises(InputError, match=rf"mine\.yaml: strategy .*{re.escape(named)}"):
            parse(EvaluateConfig, [f"experiment={path}"])

    def test_an_experiment_file_that_is_not_there(self, tmp_path):
        with pytest.raises(InputError, match=r"mine\.yaml: no such file$"):
            parse(EvaluateConfig, [f"experiment={tmp_path / 'mine.yaml'}"])

    def test_experiment_files_name_themselves_in_mistakes(self, config_folder):
        (config_folder / "experiment" / "wrong.yaml").write_text("shot: one\n")
        with pytest.raises(InputError, match="experiment wrong: shot"):
            parse(EvaluateConfig, ["experiment=wrong"])
        (config_folder / "experiment" / "torn.yaml").write_text("shot: [1\n")
        with pytest.raises(InputError, match=r"torn\.yaml"):
            parse(EvaluateConfig, ["experiment=torn"])

    def test_a_value_that_must_be_given(self):
        with pytest.raises(InputError, match="add path=VALUE"):
            parse(EvaluateConfig, ["sampler=file"])
        (config, _) = parse(EvaluateConfig, ["sampler=file", "path=x"])
        assert config.sampler.options == {"path": "x"}

    def test_a_plugin_without_a_file_gets_its_fields_from_its_class(self):
        name = "fsl.strategies.simpleshot:SimpleShot"
        (config,) = parse(EvaluateConfig, [f"strategy={name}", "beta=2"])
        assert config.strategy.build().beta == 2.0
        assert config.strategy.options["transform"] == "CL2N"

    @settings(max_examples=40, deadline=None)
    @given(
        seeds=st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
        shots=st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
        weights=st.lists(st.floats(0, 9), min_size=1, max_size=3, unique=True),
    )
    def test_the_size_of_a_product(self, seeds, shots, weights):
        arguments = [
            f"{key}={','.join(map(repr, found))}"
            for key, found in (("seed", seeds), ("shot", shots), ("weight", weights))
        ]
        found = parse(EvaluateConfig, ["strategy=laplacianshot", *arguments])
        assert [(c.seed, c.sampler.options["shot"], c.strategy.options["weight"]) for c in found] == list(
            itertools.product(seeds, shots, weights)
        )

    @settings(max_examples=40, deadline=None)
    @given(
        root=st.none() | TEXT,
        rate=st.floats(1e-9, 1e9),
        milestones=st.lists(st.integers(1, 99)),
        seed=st.integers(0, 2**63 - 1),
    )
    def test_a_config_is_read_back_from_its_arguments_and_its_yaml(
        self, tmp_path_factory, root, rate, milestones, seed
    ):
        (config,) = parse(TrainConfig, ["benchmark=omniglot"])
        options = {**config.training.options, "learning_rate": rate, "milestones": tuple(milestones)}
        config = config.replace(
            training=dataclasses.replace(config.training, options=options),
            benchmark=dataclasses.replace(config.benchmark, options={"root": root, "split": "vinyals"}),
            seed=seed,
        )
        assert parse(TrainConfig, config.arguments()) == [config]
        file = tmp_path_factory.mktemp("yaml") / "config.yaml"
        file.write_text(config.to_yaml(), encoding="utf-8")
        assert parse(TrainConfig, [f"experiment={overrides.write(str(file))}"]) == [config]

    @settings(max_examples=40, deadline=None)
    @given(
        classes=st.lists(
            TEXT.filter(lambda text: text.strip() and "\0" not in text) | st.integers().map(str), min_size=1
        )
    )
    @example(classes=["4", "9"])
    def test_a_list_of_texts_is_read_back(self, tmp_path_factory, classes):
        (config,) = parse(ClusterConfig, ["dataset=digits", "method=xsdc", "labels=50"])
        config = config.replace(coarse=tuple(classes))
        assert parse(ClusterConfig, config.arguments()) == [config]
        file = tmp_path_factory.mktemp("yaml") / "config.yaml"
        file.write_text(config.to_yaml(), encoding="utf-8")
        assert parse(ClusterConfig, [f"experiment={overrides.write(str(file))}"]) == [config]

    def test_flat_is_complete_and_of_scalars(self):
        (config,) = parse(EvaluateConfig, ["strategy=laplacianshot"])
        flat = config.flat()
        expected = {f"{group}.{field}" for group, choice in config.choices().items() for field in choice.options}
        below = {"trainer", "callbacks", "logger"}  # nothing is set there
        assert expected | {field.name for field in dataclasses.fields(config)} - below == set(flat)
        assert all(value is None or isinstance(value, (bool, int, float, str)) for value in flat.values())

    def test_result_keys_ignore_how_and_where(self):
        (config,) = parse(EvaluateConfig, ["strategy=laplacianshot", "benchmark=omniglot"])
        for argument in ("device=cpu", "devices=2", "batch=7", "results=elsewhere", "root=/elsewhere"):
            (other,) = parse(EvaluateConfig, ["strategy=laplacianshot", "benchmark=omniglot", argument])
            assert other != config
            assert other.result_keys() == config.result_keys()

    @pytest.mark.parametrize("argument", ["shot=5", "seed=1", "weight=0.8", "split=base", "epochs=3", "tasks=9"])
    def test_result_keys_heed_everything_else(self, argument):
        (config,) = parse(EvaluateConfig, ["strategy=laplacianshot"])
        (other,) = parse(EvaluateConfig, ["strategy=laplacianshot", argument])
        assert other.result_keys() != config.result_keys()

    def test_only_training_keys_decide_the_checkpoint(self):
        (config,) = parse(EvaluateConfig, ["strategy=laplacianshot", "shot=5", "seed=2"])
        (trained,) = parse(TrainConfig, ["seed=2"])
        assert config.training_config() == trained

    def test_a_file_of_tasks_counts_by_its_content(self, tmp_path):
        first, second = tmp_path / "a", tmp_path / "b"
        first.write_bytes(b"tasks")
        second.write_bytes(b"tasks")
        keys = [
            parse(EvaluateConfig, ["strategy=laplacianshot", "sampler=file", f"path={path}"])[0].result_keys()
            for path in (first, second)
        ]
        assert keys[0] == keys[1]
        second.write_bytes(b"other tasks")
        (config,) = parse(EvaluateConfig, ["strategy=laplacianshot", "sampler=file", f"path={second}"])
        assert config.result_keys() != keys[0]
        second.unlink()
        with pytest.raises(InputError, match=r"sampler\.path"):
            config.result_keys()


@given(st.lists(SCALARS, max_size=4) | SCALARS)
def test_what_is_written_is_read_back(value):
    (found,) = overrides.values("key", overrides.write(value))
    assert found.value == value
    assert type(found.value) is type(value)


def test_values_between_commas():
    found = [value.value for value in overrides.values("key", "1, 0.5,1e-4,true,null,text,'a,b',[1, 2],007")]
    assert found == [1, 0.5, 1e-4, True, None, "text", "a,b", [1, 2], 7]
    assert overrides.values("key", "007")[0].text == "007"


def test_a_number_in_the_place_of_a_word_is_a_number():
    (config,) = parse(ClusterConfig, ["method=slk_mean_shift", "bandwidth=0.4"])
    assert config.method.build().bandwidth == 0.4
    with pytest.raises(InputError, match=r"bandwidth .*estimate, published"):
        parse(ClusterConfig, ["method=slk_mean_shift", "bandwidth=wide"])


def test_an_estimator_of_another_package_is_a_method():
    (config,) = parse(ClusterConfig, ["method=sklearn.cluster:HDBSCAN", "min_cluster_size=7"])
    assert config.method.build().min_cluster_size == 7
    with pytest.raises(InputError, match="json:JSONDecoder"):
        parse(ClusterConfig, ["method=json:JSONDecoder"])
    with pytest.raises(InputError, match=r"get_params.*method=softmax objective=clustering.deep.objectives:IMSAT"):
        parse(ClusterConfig, ["method=clustering.deep.objectives:IMSAT"])[0].method.build()
    # A network is given likewise, but it is no option of its own.
    with pytest.raises(InputError, match="network=small_cnn architecture=own:convs"):
        parse(ClusterConfig, ["network=own:convs"])


def test_each_verb_decides_its_own_parameters_and_no_others():
    typed = ["method=fairness.fair_kmeans:FairKMeans"]
    (config,) = parse(ClusterConfig, [*typed, "fairness_weight=3.0"])
    assert config.method.build().fairness_weight == 3
    (config,) = parse(FairConfig, [*typed, "fairness_weight=3.0"])
    assert config.fairness_weight == (3,)
    assert "fairness_weight" not in config.method.options


@pytest.mark.parametrize("group", ["benchmark", "backbone", "strategy", "sampler", "target", "training"])
def test_an_empty_name_is_no_option(group):
    with pytest.raises(InputError, match=f"unknown {group} ''"):
        parse(EvaluateConfig, [f"{group}=''"])
