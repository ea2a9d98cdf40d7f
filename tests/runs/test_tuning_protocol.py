"""What is tuned from which values: protocols, what is typed beside them, and how a config says it."""

import pytest

from clustering.foundation.errors import InputError
from runs.config.configs import EvaluateConfig, TuneConfig, parse
from runs.config.groups import names
from runs.config.overrides import Grid
from runs.config.tuning_protocol import steps_of
from runs.stages.lineage import Lineage

WEIGHTS = (0.1, 0.3, 0.5, 0.7, 0.8, 1.0, 1.2, 1.5)


def steps(*typed, schema=TuneConfig):
    (config,) = parse(schema, typed)
    return [
        (step.split, step.tasks, dict(step.grids), dict(step.at)) for step in steps_of(config.tuning, config.strategy)
    ]


@pytest.fixture
def mine(tmp_path):
    """Writes a protocol of one's own; gives what to type for it."""

    def write(text, name="mine.yaml"):
        (tmp_path / name).write_text(text)
        return f"tuning={tmp_path / name}"

    return write


OWN = (
    "laplacianshot:\n- {grid: {weight: [0.1, 1]}}\nlaplacianshot_as_published:\n- {grid: {weight: [2, 3]}, tasks: 7}\n"
)
NOT_TUNED = "laplacianshot:\n- {grid: {weight: [0.1, 1]}}\nlaplacianshot_as_published: []\n"
PAPERS = [
    ("base", 500, {"n_neighbors": (3, 5, 10)}, {"weight": 1.0}),
    ("validation", 500, {"weight": WEIGHTS}, {}),
]


@pytest.mark.parametrize(
    ("typed", "protocol", "expected"),
    [
        ("strategy=laplacianshot", None, PAPERS),
        (
            "strategy=laplacianshot_as_published",  # whose code counts the point itself
            None,
            [("base", 500, {"n_neighbors": (2, 4, 9)}, {"weight": 1.0}), PAPERS[1]],
        ),
        (
            "strategy=laplacianshot_alpha_tim tuning=papers",
            None,
            [("base", 500, {"n_neighbors": (2, 4, 9)}, {"weight": 1.0}), PAPERS[1]],
        ),
        ("strategy=rectified_prototypes tuning=papers", None, []),  # tuned, it would become laplacianshot
        ("strategy=laplacianshot_as_published", NOT_TUNED, []),
        ("strategy=laplacianshot_as_published", OWN, [("validation", 7, {"weight": (2.0, 3.0)}, {})]),
        ("strategy=laplacianshot", OWN, [("validation", 500, {"weight": (0.1, 1.0)}, {})]),
        ("strategy=laplacianshot n_neighbors=7", None, [("validation", 500, {"weight": WEIGHTS}, {})]),
        ("strategy=laplacianshot weight=0.4", None, [("base", 500, {"n_neighbors": (3, 5, 10)}, {})]),
        ("strategy=laplacianshot weight=2,1 n_neighbors=7", None, [("validation", 500, {"weight": (1.0, 2.0)}, {})]),
        (
            "strategy=laplacianshot text_weight=5,10",
            None,
            [PAPERS[0], ("validation", 500, {"weight": WEIGHTS, "text_weight": (5.0, 10.0)}, {})],
        ),
        (
            "strategy=tim_adm temperature=5,15 marginal=0.5,1",
            None,
            [("validation", 500, {"temperature": (5.0, 15.0), "marginal": (0.5, 1.0)}, {})],
        ),
    ],
)
def test_steps_of_protocols_and_of_what_is_typed_beside_them(mine, typed, protocol, expected):
    """What is typed is kept; several typed values are chosen from; fields that no step names join the last one."""
    assert steps(*typed.split(), *([] if protocol is None else [mine(protocol)])) == expected


def test_every_protocol_can_be_tried():
    for protocol in names("tuning"):
        for config in parse(TuneConfig, [f"tuning={protocol}", f"strategy={','.join(names('strategy'))}"]):
            tried = [field for step in steps_of(protocol, config.strategy) for field in step.grids]
            assert sorted(tried) == sorted(config.strategy.grids)
            assert all(point.build() for point in config.strategy.points())


def test_tuning_is_that_of_tune_and_part_of_an_evaluation_where_there_is_something_to_tune():
    typed = ["strategy=laplacianshot", "weight=0.1,0.7", "shot=5", "seed=3"]
    *plain, tuned = parse(EvaluateConfig, [*typed, "tuning=null,papers", "tasks=70"])
    assert [config.strategy.options["weight"] for config in (*plain, tuned)] == [0.1, 0.7, Grid((0.1, 0.7))]
    (alone,) = parse(TuneConfig, typed)
    lineage = Lineage.of(alone)
    assert lineage.tuning(tuned.tuning_config()) == lineage.tuning(alone)
    for strategy, differ in (("laplacianshot", True), ("simpleshot", False)):
        first, second = parse(EvaluateConfig, [f"strategy={strategy}", "tuning=null,papers"])
        assert (Lineage.of(first).evaluation(first) != Lineage.of(second).evaluation(second)) == differ


@pytest.mark.parametrize("schema", [EvaluateConfig, TuneConfig])
@pytest.mark.parametrize("typed", [[], ["n_neighbors=5"], ["transform=CL2N,L2N"], ["text_weight=5,10", "weight=1"]])
def test_a_config_with_grids_is_read_back(tmp_path, schema, typed):
    (config,) = parse(schema, ["strategy=laplacianshot", "tuning=papers", *typed])
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    assert parse(schema, [f"experiment={tmp_path}/config.yaml"]) == [config]
    assert parse(schema, config.arguments()) == [config]


def identity(*typed):
    (config,) = parse(TuneConfig, ["strategy=laplacianshot", *typed])
    return Lineage.of(config).tuning(config)


def test_what_a_protocol_does_is_its_identity_not_its_name(mine):
    text = "laplacianshot:\n- {split: validation, grid: {weight: [0.5, 0.1]}, tasks: 20}\n"
    first = mine(text)
    assert identity(first) == identity(mine(text.replace("[0.5, 0.1]", "[0.1, 0.5, 0.5]"), "other.yaml"))
    assert identity(first) == identity(first, "novel_tasks=9", "batch=3")
    for change in [("tasks: 20", "tasks: 21"), ("0.1]", "0.2]"), ("validation", "base")]:
        assert identity(first) != identity(mine(text.replace(*change), "other.yaml"))
    for key in ("shot=2", "seed=1", "epochs=8", "graph=union", "weight=0.1,0.6"):
        assert identity(first) != identity(first, key)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("laplacianshot:\n- {split: novel, grid: {weight: [0.1, 1]}}", "mine.yaml.*base, validation"),
        ("laplacianshot:\n- {grid: {wieght: [0.1, 1]}}", "mine.yaml.*'weight'"),
        ("laplacianshot:\n- {grid: {weight: [0.1]}}", "mine.yaml.*two values"),
        ("laplacianshot:\n- {grid: {text_weight: [low, high]}}", "mine.yaml.*'low'"),
        ("laplacianshot:\n- {grid: {weight: [0.1, 1]}, at: {neighbors: 3}}", "mine.yaml.*did you mean 'n_neighbors'"),
        ("laplacianshot:\n- {grid: {weight: [0.1, 1]}, tasks: 0}", "mine.yaml.*tasks"),
        ("laplacianshot:\n- {split: base}", "mine.yaml.*each with a grid"),
        ("- weight", "mine.yaml.*key: value"),
        ("tuning=no/such.yaml", "no/such.yaml"),
        ("novel_tasks=-1", "novel_tasks"),
        ("sampler=file path=tasks.safetensors", "sampler"),
    ],
)
def test_mistakes_in_a_protocol_or_beside_it_are_named_with_their_place(mine, text, words):
    with pytest.raises(InputError, match=words):
        parse(
            TuneConfig, ["strategy=laplacianshot", *([mine(text)] if ":" in text or "-" in text[:1] else text.split())]
        )
