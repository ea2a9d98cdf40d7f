"""What is part of the key of a checkpoint, of features and of an evaluation, and what is not."""

import pytest

from runs.stages.lineage import Lineage


@pytest.mark.parametrize("key", ["shot=2", "tasks=41", "split=validation", "epochs=4", "noise=61.0", "way=4"])
def test_what_changes_the_result_is_part_of_the_key(configs, key):
    (config,), (other,) = configs(), configs(key)
    assert Lineage.of(config).evaluation(config) != Lineage.of(other).evaluation(other)


def test_other_images_and_revisions_are_part_of_the_key(configs, monkeypatch):
    import tiny_plugins

    import runs.stages.lineage
    from fsl.samplers.balanced import Balanced

    (config,) = configs()
    before = Lineage.of(config)
    evaluated, bank = before.evaluation(config), before.bank("novel")
    with monkeypatch.context() as patch:
        patch.setattr(tiny_plugins.Tiny, "source", lambda self: "other images")
        assert Lineage.of(config).checkpoint != before.checkpoint
        assert Lineage.of(config).evaluation(config) != evaluated
    with monkeypatch.context() as patch:
        patch.setattr(tiny_plugins.Tiny, "std", (0.3,))
        assert Lineage.of(config).checkpoint != before.checkpoint
    for kind in (config.strategy.kind, Balanced):
        with monkeypatch.context() as patch:
            patch.setattr(kind, "revision", 2, raising=False)
            assert Lineage.of(config).evaluation(config) != evaluated
            assert Lineage.of(config).bank("novel") == bank, "hours of training are not thrown away"
    places = {"TRAINING": runs.stages.lineage, "FEATURES": runs.stages.lineage, "EVALUATION": runs.stages.lineage}
    for part, module in places.items():
        with monkeypatch.context() as patch:
            patch.setattr(module, part, 9)
            assert Lineage.of(config).evaluation(config) != evaluated
