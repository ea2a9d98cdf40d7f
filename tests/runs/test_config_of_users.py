"""Settings as users of OmegaConf, Hydra and Lightning write them."""

import re
import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from clustering.foundation.errors import InputError
from runs.cli import main
from runs.config.base import to_yaml
from runs.config.configs import ClusterConfig, EvaluateConfig, TrainConfig, parse


def written(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return f"experiment={path}"


class TestFiles:
    def test_lists_are_several_values_and_nested_settings_are_fields(self, tmp_path):
        text = (
            "strategy: [simpleshot, laplacianshot]\nseed: [0, 1]\ntraining: {epochs: 4, milestones: [2, 3]}\nshot: 5\n"
        )
        found = parse(EvaluateConfig, [written(tmp_path, text)])
        assert [(config.strategy.name, config.seed) for config in found] == [
            ("simpleshot", 0),
            ("simpleshot", 1),
            ("laplacianshot", 0),
            ("laplacianshot", 1),
        ]
        assert {config.training.options["milestones"] for config in found} == {(2, 3)}
        assert {config.sampler.options["shot"] for config in found} == {5}

    def test_a_group_with_its_name_and_fields(self, tmp_path):
        (config,) = parse(EvaluateConfig, [written(tmp_path, "strategy: {name: laplacianshot, weight: 0.5}\n")])
        assert (config.strategy.name, config.strategy.options["weight"]) == ("laplacianshot", 0.5)

    def test_references_between_the_keys_of_a_file(self, tmp_path):
        text = "strategy: simpleshot\ntraining: {epochs: 4}\ntasks: ${training.epochs}\nseed: ${tasks}\n"
        (config,) = parse(EvaluateConfig, [written(tmp_path, text)])
        assert (config.tasks, config.seed) == (4, 4)

    @pytest.mark.parametrize(
        "value", ["${oc.env:HOME}", r"\\${oc.env:HOME}", "${oc.env:HOME,x}", "${${tasks}:HOME}", "${nothing}"]
    )
    def test_references_do_not_reach_outside_the_file(self, tmp_path, value):
        with pytest.raises(InputError, match=r"mine\.yaml: results"):
            parse(EvaluateConfig, [written(tmp_path, f"tasks: 3\nresults: '{value}'\n")])

    def test_a_list_of_defaults_is_answered_with_our_form(self, tmp_path):
        with pytest.raises(InputError, match="strategy: laplacianshot"):
            parse(EvaluateConfig, [written(tmp_path, "defaults:\n- strategy: simpleshot\n")])

    @pytest.mark.parametrize(("key", "base"), [("training", "glyphs"), ("strategy", "laplacianshot")])
    def test_a_file_of_a_group_of_ones_own(self, tmp_path, key, base):
        field, value = {"training": ("epochs", 5), "strategy": ("weight", 0.25)}[key]
        (tmp_path / "own.yaml").write_text(f"base: {base}\n{field}: {value}\n")
        config = parse(EvaluateConfig, [f"{key}={tmp_path / 'own.yaml'}"])[-1]
        chosen = config.choices()[key]
        assert chosen.options[field] == value
        assert (
            chosen.build()
            == parse(EvaluateConfig, [f"{key}={base}", f"{key}.{field}={value}"])[-1].choices()[key].build()
        )
        (tmp_path / "own.yaml").write_text(f"base: {base}\n{field}s: {value}\n")
        with pytest.raises(InputError, match=rf"own\.yaml: .*{field}"):
            parse(EvaluateConfig, [f"{key}={tmp_path / 'own.yaml'}", "seed=1"])

    def test_ranges(self):
        assert [config.seed for config in parse(TrainConfig, ["seed=range(0,5)"])] == [0, 1, 2, 3, 4]
        assert [config.seed for config in parse(TrainConfig, ["seed=7,range(2)"])] == [7, 0, 1]
        with pytest.raises(InputError, match="seed"):
            parse(TrainConfig, ["seed=range(5,0)"])


SETTINGS = {
    TrainConfig: ["seed=3", "trainer.max_epochs=5", "callbacks.mine._target_=mine.py:Mine", "milestones=[1, 2]"],
    EvaluateConfig: ["strategy=laplacianshot", "shot=1,5", "results='a, b'", "audit=best_permutation"],
    ClusterConfig: ["method=slk_means,kmeans", "seed=0,1", "weight=0.5"],
}


@pytest.mark.parametrize("schema", SETTINGS)
def test_the_resolved_yaml_repeats_the_runs_with_the_same_keys(tmp_path, schema):
    found = parse(schema, SETTINGS[schema])
    again = parse(schema, [written(tmp_path, to_yaml(found))])
    assert again == found
    assert [config.result_keys() for config in again] == [config.result_keys() for config in found]
    loaded = OmegaConf.load(tmp_path / "mine.yaml")
    if schema is TrainConfig:
        assert loaded.training.milestones == [1, 2]
        assert loaded.trainer.max_epochs == 5


class TestTrainer:
    def test_keys_of_execution_do_not_count(self):
        (plain,) = parse(TrainConfig, [])
        for argument in ("trainer.devices=2", "trainer.accelerator=cpu", "logger.log_model=false"):
            (config,) = parse(TrainConfig, [argument])
            assert config != plain
            assert config.result_keys() == plain.result_keys()
        for argument in ("trainer.max_epochs=5", "callbacks.early_stopping.patience=2", "module=mine.py:Mine"):
            assert parse(TrainConfig, [argument])[0].result_keys() != plain.result_keys()

    def test_the_place_of_a_module_does_not_count(self):
        first, second = (parse(TrainConfig, [f"module={place}/mine.py:Mine"])[0] for place in ("a", "b"))
        assert first.result_keys() == second.result_keys()

    def test_several_values(self):
        found = parse(TrainConfig, ["trainer.precision=32-true,bf16-mixed"])
        assert [config.trainer for config in found] == [{"precision": "32-true"}, {"precision": "bf16-mixed"}]

    @pytest.mark.parametrize(
        ("argument", "named"),
        [
            ("trainer.max_epoch=5", "max_epochs"),
            ("trainer=5", "trainer.KEY=value"),
            ("callbacks.mine=3", "callbacks.mine.KEY=value"),
            ("lr=0.1", "learning_rate"),
        ],
    )
    def test_mistakes(self, argument, named):
        with pytest.raises(InputError, match=re.escape(named)):
            parse(TrainConfig, [argument])


class TestText:
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


class TestCommands:
    def test_config_prints_what_cfg_prints(self, capsys):
        assert main(["config", "train", "seed=3"]) == 0
        printed = capsys.readouterr().out
        assert OmegaConf.create(printed).seed == 3
        assert main(["train", "seed=3", "--cfg", "job", "-m"]) == 0
        again = capsys.readouterr()
        assert again.out == printed
        assert "-m is not needed" in again.err

    def test_a_key_is_a_flag_too(self, capsys):
        assert main(["config", "nothing"]) == 2
        assert main(["train", "--seed", "3", "--shots", "1"]) == 2
        assert "--shots" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "words",
        [
            ["--help"],
            ["evaluate", "--help"],
            ["evaluate", "shots=1"],
            ["cluster", "n_clusters=x"],
            ["evaluate", "q9=1"],
        ],
    )
    def test_slow_packages_are_not_imported_for_help_and_mistakes(self, words):
        slow = "torch", "mlflow", "pandas", "scipy", "sklearn", "timm", "pytorch_lightning", "matplotlib", "faiss"
        code = f"import sys; from runs.cli import main; main({words!r}); print(set(sys.modules) & set({slow!r}))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "set()"

    def test_help_shows_each_field_with_its_line_of_the_docstring(self, capsys):
        assert main(["evaluate", "strategy=laplacianshot", "--help"]) == 0
        printed = capsys.readouterr().out
        assert "strategy.shift=true" in printed
        assert "shift the queries so that their mean equals the support's" in " ".join(printed.split())
