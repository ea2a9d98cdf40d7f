"""From arguments and files to configs: keys, groups, products, result keys, messages; and what stands in configs/."""

import inspect
import re
import shlex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from clustering.foundation.errors import InputError, setting
from runs.config import groups, overrides
from runs.config.base import to_yaml
from runs.config.configs import ClusterConfig, EvaluateConfig, FairConfig, TrainConfig, parse
from runs.config.source import REQUIRED, describe, freeze, read_class
from runs.config.yaml_files import read
from tests.runs.typed import latest

TEXT = st.one_of(st.text(max_size=20), st.text(alphabet="${}\\\\:,[] #'\"0a", max_size=8)).filter(
    lambda text: "'" not in text or '"' not in text
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT)
FILES = {
    "benchmark/rotated": "name: omniglot\nsplit: background\n",
    "training/default": "# the defaults of the class\n",
    "training/omniglot": "epochs: 7\nmilestones: []\n",
    "strategy/preset": "name: laplacianshot\nn_neighbors: 5\n",
    "experiment/both": "strategy: simpleshot,laplacianshot\nshot: 1,5\nseed: 3\n",
    "experiment/heavy": "strategy: laplacianshot\nstrategy.weight: 5\n",
    "experiment/pairs": "strategy: simpleshot\nseed: 1,2\neach:\n- {shot: 1, query: 15}\n- {shot: 5, query: 10}\n",
}


@pytest.fixture
def config_folder(tmp_path, monkeypatch):
    """A folder of presets and experiments, independent of those of the project."""
    for name, text in FILES.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(groups, "folder", lambda: tmp_path)
    groups._option.cache_clear()
    yield tmp_path
    groups._option.cache_clear()


@pytest.fixture
def written(tmp_path):
    def write(text):
        (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
        return f"experiment={tmp_path / 'mine.yaml'}"

    return write


def values_of(configs, *keys):
    return [tuple(config.as_json().get(key) for key in keys) for config in configs]


@pytest.mark.usefixtures("config_folder")
class TestResolution:
    @pytest.mark.parametrize(("benchmark", "training"), [("omniglot", "omniglot"), ("rotated", "omniglot")])
    def test_training_follows_the_benchmark(self, benchmark, training):
        both = parse(TrainConfig, [f"benchmark=glyphs,{benchmark}"])
        assert [one.training.name for one in both] == ["default", training]
        (config,) = parse(TrainConfig, [f"benchmark={benchmark}", "training=default"])
        assert config.training.name == "default"

    @pytest.mark.parametrize(
        ("arguments", "keys", "expected"),
        [
            ("shot=1,5 strategy=laplacianshot seed=0,1", "sampler.shot seed", [(1, 0), (1, 1), (5, 0), (5, 1)]),
            ("strategy=laplacianshot strategy.weight=2", "strategy.weight", [(2.0,)]),
            ("strategy=simpleshot,laplacianshot weight=0.1,1", "strategy.weight", [(None,), (0.1,), (1.0,)]),
            ("strategy=simpleshot benchmark.seed=4", "seed benchmark.seed", [(0, 4)]),
            ("strategy=simpleshot milestones=[1,2],[3]", "training.milestones", [((1, 2),), ((3,),)]),
            ("strategy=simpleshot audit=[per_true_class]", "audit", [(("per_true_class",),)]),
            ("strategy=simpleshot audit=[],[per_true_class]", "audit", [((),), (("per_true_class",),)]),
            ("shot=10 experiment=both", "sampler.shot seed", [(10, 3), (10, 3)]),
            ("experiment=heavy weight=6", "strategy.weight", [(6.0,)]),
            ("experiment=heavy strategy=simpleshot", "strategy strategy.weight", [("simpleshot", None)]),
            ("experiment=both,heavy seed=3", "sampler.shot", [(1,), (5,), (1,), (5,), (1,)]),
            ("experiment=pairs", "sampler.shot sampler.query seed", [(1, 15, 1), (1, 15, 2), (5, 10, 1), (5, 10, 2)]),
            ("experiment=pairs seed=7", "sampler.shot seed", [(1, 7), (5, 7)]),
            ("strategy=simpleshot trainer.precision=a,b", "trainer.precision", [("a",), ("b",)]),
        ],
    )  # fmt: skip
    def test_products(self, arguments, keys, expected):
        assert values_of(parse(EvaluateConfig, arguments.split()), *keys.split()) == expected

    def test_a_preset_keeps_its_name_and_builds_its_plugin(self):
        (config,) = parse(EvaluateConfig, ["strategy=preset"])
        assert (config.strategy.name, config.strategy.plugin) == ("preset", "laplacianshot")
        assert config.flat()["strategy.name"] == "laplacianshot"
        (by_hand,) = parse(EvaluateConfig, ["strategy=laplacianshot", "n_neighbors=5"])
        assert by_hand.flat() != config.flat()
        assert by_hand.result_keys() == config.result_keys()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ("benchmark=glyfs", "benchmark 'glyphs'"),
            ("experiment=pairs shot=2", "pairs: shot, query"),
            ("shots=1", "'shots' 'shot'"),
            ("strategy.zzz=1", "zzz n_neighbors transform"),
            ("lr=0.1", "'learning_rate'"),
            ("shot=one", "shot integer 'one'"),
            ("seed=-1", "seed at least 0"),
            ("split=test", "split novel"),
            ("audit=permutation", "audit best_permutation"),
            ("benchmark=omniglot split=background", "split benchmark.split"),
            ("device=gpu", "device cuda"),
            ("jitter=much", "jitter a number"),
            ("shift=1", "shift true or false"),
            ("milestones=[3,x]", "milestones an integer"),
            ("shot=1 shot=5", "shot twice"),
            ("weight=1 strategy.weight=5", "weight strategy.weight twice"),
            ("root=/x", "root benchmark=mini"),
            ("benchmark glyphs", "benchmark=glyphs"),
            ("shot=", "shot no value"),
            ("shot=1,,5", "shot empty"),
            ("milestones=[1,2", "milestones ]"),
            ("+shot=1", "shot=VALUE"),
            ("backbone.depth=3", "depth conv4"),
            ("sampler=file", "add path=VALUE"),
            ("strategy=no_module_here:Thing", "no_module_here import"),
            ("strategy=''", "unknown strategy ''"),
            ("trainer.max_epoch=5", "max_epochs"),
            ("trainer=5", "trainer.KEY=value"),
            ("callbacks.mine=3", "callbacks.mine.KEY=value"),
        ],
    )
    def test_mistakes_are_named_with_their_remedy(self, arguments, words):
        with pytest.raises(InputError) as caught:
            parse(EvaluateConfig, arguments.split())
        for word in words.split():
            assert word in str(caught.value)

    def test_a_list_is_one_value_where_a_word_or_an_array_is_taken(self):
        (config,) = parse(ClusterConfig, ["dataset=digits", "method=entropy", "prior=[6, 3, 1]"])
        assert config.method.options["prior"] == (6, 3, 1)
        words = parse(ClusterConfig, ["dataset=digits", "method=slk", "init=k-means++,random"])
        assert [config.method.options["init"] for config in words] == ["k-means++", "random"]

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


class TestFiles:
    @pytest.mark.parametrize(
        ("text", "keys", "expected"),
        [
            (
                "strategy: [simpleshot, laplacianshot]\nseed: [0, 1]\ntraining: {epochs: 4, milestones: [2, 3]}\n",
                "strategy seed training.milestones",
                [(s, i, (2, 3)) for s in ("simpleshot", "laplacianshot") for i in (0, 1)],
            ),
            ("strategy: {name: laplacianshot, weight: 0.5}\n", "strategy strategy.weight", [("laplacianshot", 0.5)]),
            ("strategy: simpleshot\ntraining: {epochs: 4}\nseed: ${training.epochs}\n", "seed", [(4,)]),
        ],
    )  # fmt: skip
    def test_an_experiment_as_users_of_hydra_write_it(self, written, text, keys, expected):
        assert values_of(parse(EvaluateConfig, [written(text)]), *keys.split()) == expected

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("strategy:\n  laplacianshot:\n    weight: 1\n", r"mine\.yaml: strategy .*`strategy\.FIELD: value`"),
            ("shot: one\n", r"mine\.yaml: shot"),
            ("shot: [1\n", r"(?s)mine\.yaml: .*line"),
            ("each: {shot: 1}\n", r"mine\.yaml: each"),
            ("dataset: synthetic\nmethod: fair_kmeans,bera\nseed: 0,1\n", "`transduce fair`"),
            ("dataset: digits\nmethod: slk_means\nmethod.n_neighbors: 5\nstarts: 3\n", "`transduce cluster`"),
        ],
    )
    def test_mistakes_in_a_file(self, written, text, words):
        with pytest.raises(InputError, match=words):
            parse(EvaluateConfig, [written(text)])

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(InputError, match=r"mine\.yaml: no such file$"):
            parse(EvaluateConfig, [f"experiment={tmp_path / 'mine.yaml'}"])

    @pytest.mark.parametrize(
        ("key", "base", "field", "value"),
        [("training", "glyphs", "epochs", 5), ("strategy", "laplacianshot", "weight", 0.25)],
    )
    def test_a_file_of_a_group_of_ones_own(self, tmp_path, key, base, field, value):
        (tmp_path / "own.yaml").write_text(f"base: {base}\n{field}: {value}\n")
        chosen, same = (
            parse(EvaluateConfig, typed)[-1].choices()[key]
            for typed in ([f"{key}={tmp_path / 'own.yaml'}"], [f"{key}={base}", f"{key}.{field}={value}"])
        )
        assert chosen.options[field] == value
        assert chosen.build() == same.build()
        (tmp_path / "own.yaml").write_text(f"base: {base}\n{field}s: {value}\n")
        with pytest.raises(InputError, match=rf"own\.yaml: .*{field}"):
            parse(EvaluateConfig, [f"{key}={tmp_path / 'own.yaml'}", "seed=1"])

    @pytest.mark.parametrize(
        ("schema", "typed"),
        [
            (TrainConfig, "seed=3 trainer.max_epochs=5 callbacks.mine._target_=mine.py:Mine milestones=[1,2]"),
            (EvaluateConfig, "strategy=laplacianshot shot=1,5 results='a,b' audit=best_permutation"),
            (ClusterConfig, "method=slk_means,kmeans seed=0,1 weight=0.5"),
        ],
    )
    def test_the_resolved_yaml_repeats_the_runs_with_the_same_keys(self, written, tmp_path, schema, typed):
        found = parse(schema, typed.split())
        again = parse(schema, [written(to_yaml(found))])
        assert again == found
        assert [config.result_keys() for config in again] == [config.result_keys() for config in found]
        if schema is TrainConfig:
            loaded = OmegaConf.load(tmp_path / "mine.yaml")
            assert (loaded.training.milestones, loaded.trainer.max_epochs) == ([1, 2], 5)


class TestReadBack:
    @settings(max_examples=40, deadline=None)
    @given(
        root=st.none() | TEXT,
        rate=st.floats(1e-9, 1e9),
        milestones=st.lists(st.integers(1, 99)),
        seed=st.integers(0, 2**63 - 1),
    )
    def test_a_config(self, tmp_path_factory, root, rate, milestones, seed):
        (config,) = parse(TrainConfig, ["benchmark=omniglot"])
        training = config.training.at({"learning_rate": rate, "milestones": tuple(milestones)})
        benchmark = config.benchmark.at({"root": root, "split": "vinyals"})
        self.check(tmp_path_factory, config.replace(training=training, benchmark=benchmark, seed=seed))

    @settings(max_examples=40, deadline=None)
    @given(
        classes=st.lists(
            TEXT.filter(lambda text: text.strip() and "\0" not in text) | st.integers().map(str), min_size=1
        )
    )
    @example(classes=["4", "9"])
    def test_a_list_of_texts(self, tmp_path_factory, classes):
        (config,) = parse(ClusterConfig, ["dataset=digits", "method=xsdc", "labels=50"])
        self.check(tmp_path_factory, config.replace(coarse=tuple(classes)))

    @staticmethod
    def check(tmp_path_factory, config):
        assert parse(type(config), config.arguments()) == [config]
        file = tmp_path_factory.mktemp("yaml") / "config.yaml"
        file.write_text(config.to_yaml(), encoding="utf-8")
        assert parse(type(config), [f"experiment={overrides.write(str(file))}"]) == [config]

    @given(st.lists(SCALARS, max_size=4) | SCALARS)
    def test_what_is_written(self, value):
        (found,) = overrides.values("key", overrides.write(value))
        assert found.value == value
        assert type(found.value) is type(value)

    @pytest.mark.parametrize(
        ("text", "columns"),
        [
            ("Temp [C],b", ("Temp [C]", "b")),
            ("[Temp [C], b]", ("Temp [C]", "b")),
            ("'null'", ("null",)),
            ("'a,b',c", ("a,b", "c")),
            ("2024,1e3", ("2024", "1e3")),
            ('"it\'s, so",c', ("it's, so", "c")),
        ],
    )
    def test_names_of_columns(self, text, columns):
        (config,) = parse(ClusterConfig, ["dataset=table", "path=a.csv", f"columns={text}", "method=kmeans"])
        assert config.dataset.options["columns"] == columns
        assert parse(ClusterConfig, config.arguments()) == [config]


class TestSuggestions:
    """What a message or a note asks a user to type works when it is pasted."""

    @given(
        st.text(alphabet="ab/. -:;'\"`$!,[](){}\\%?~", min_size=1, max_size=12).filter(
            lambda text: text == text.strip()
        )
    )
    def test_a_setting(self, text):
        (word,) = shlex.split(setting("key", text))
        key, typed = overrides.split(word)
        assert key == "key"
        assert [value.text for value in overrides.values(key, typed)] == [text]

    @pytest.mark.parametrize(
        ("key", "text"),
        [("path", "a,b.csv"), ("path", "it's, so.csv"), ("path", "$HOME,`x`.csv"), ("columns", "[Temp [C]")],
    )
    def test_the_remedy_for_text_that_needs_quotes(self, tmp_path, monkeypatch, key, text):
        monkeypatch.chdir(tmp_path)
        (tmp_path / text).touch()
        with pytest.raises(InputError) as caught:
            parse(ClusterConfig, ["dataset=table", "method=kmeans", f"{key}={text}"])
        (pasted,) = shlex.split(str(caught.value).rpartition("shell: ")[2])
        (config,) = parse(ClusterConfig, ["dataset=table", "method=kmeans", pasted])
        assert config.dataset.options[key] in (text, (text,))


class TestResultKeys:
    @pytest.mark.parametrize(
        ("arguments", "count"),
        [
            ("device=cpu devices=2 batch=7 results=elsewhere root=/elsewhere", False),
            ("trainer.devices=2 trainer.accelerator=cpu logger.log_model=false module=b/mine.py:Mine", False),
            ("shot=5 seed=1 weight=0.8 split=base epochs=3 tasks=9", True),
            ("trainer.max_epochs=5 callbacks.early_stopping.patience=2 module=other.py:Mine", True),
        ],
    )
    def test_how_and_where_do_not_count_and_everything_else_does(self, arguments, count):
        typed = ["strategy=laplacianshot", "benchmark=omniglot", "module=a/mine.py:Mine"]
        (config,) = parse(EvaluateConfig, typed)
        for argument in arguments.split():
            (other,) = parse(EvaluateConfig, latest(*typed, argument))
            assert other != config
            assert (other.result_keys() != config.result_keys()) == count, argument

    def test_a_file_of_tasks_counts_by_its_content(self, tmp_path):
        first, second = tmp_path / "a", tmp_path / "b"

        def keys(path):
            return parse(EvaluateConfig, ["strategy=laplacianshot", "sampler=file", f"path={path}"])[0].result_keys()

        first.write_bytes(b"tasks")
        second.write_bytes(b"tasks")
        assert keys(first) == keys(second)
        second.write_bytes(b"other tasks")
        assert keys(first) != keys(second)
        second.unlink()
        with pytest.raises(InputError, match=r"sampler\.path"):
            keys(second)


class TestEstimators:
    def test_a_number_in_the_place_of_a_word_is_a_number(self):
        (config,) = parse(ClusterConfig, ["method=slk_mean_shift", "bandwidth=0.4"])
        assert config.method.build().bandwidth == 0.4
        with pytest.raises(InputError, match=r"bandwidth .*estimate, published"):
            parse(ClusterConfig, ["method=slk_mean_shift", "bandwidth=wide"])

    def test_an_estimator_of_another_package_is_a_method(self):
        (config,) = parse(ClusterConfig, ["method=sklearn.cluster:HDBSCAN", "min_cluster_size=7"])
        assert config.method.build().min_cluster_size == 7
        with pytest.raises(InputError, match="json:JSONDecoder"):
            parse(ClusterConfig, ["method=json:JSONDecoder"])
        with pytest.raises(InputError, match=r"get_params.*method=softmax objective=clustering.deep.objectives:IMSAT"):
            parse(ClusterConfig, ["method=clustering.deep.objectives:IMSAT"])[0].method.build()
        with pytest.raises(InputError, match=re.escape("network=small_cnn architecture=own:convs")):
            parse(ClusterConfig, ["network=own:convs"])

    def test_each_verb_decides_its_own_parameters_and_no_others(self):
        typed = ["method=fairness.fair_kmeans:FairKMeans", "fairness_weight=3.0"]
        (config,) = parse(ClusterConfig, typed)
        assert config.method.build().fairness_weight == 3
        (config,) = parse(FairConfig, typed)
        assert config.fairness_weight == (3,)
        assert "fairness_weight" not in config.method.options


PRESETS = [(group, path.stem) for group in groups.GROUPS for path in sorted((groups.folder() / group).glob("*.yaml"))]


@pytest.mark.parametrize(("group", "name"), PRESETS)
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
    read, imported = read_class(kind.plugins.locate(name)), groups.load(kind, name)
    assert getattr(read, "revision", 1) == getattr(imported, "revision", 1)
    assert read.__module__ == imported.__module__
    assert list(inspect.signature(read).parameters) == list(inspect.signature(imported).parameters)


@pytest.mark.parametrize(("group", "name"), [*PLUGINS, ("training", "default")])
def test_the_command_line_and_python_have_the_same_defaults(group, name):
    choice = groups.option(group, name)
    given = {field: value for field, value in choice.options.items() if value == REQUIRED}
    built, plain = choice.build(), groups.load(groups.GROUPS[group], choice.plugin)(**given)
    if groups.GROUPS[group].decided is not None:
        built, plain = built.get_params(), plain.get_params()
    assert built == plain


@pytest.mark.parametrize("name", [f for g, f in PRESETS if g == "strategy" and f.endswith("_as_published")])
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
