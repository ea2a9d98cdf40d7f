"""`transduce train`: train a backbone on the base classes of a benchmark."""

from collections.abc import Sequence

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags
from runs.config.configs import TrainConfig, parse
from runs.console.output import Console

FLAGS = ("dry-run", "force", "json")
ABOUT = """\
Train a backbone with cross-entropy on the base classes of a benchmark, and keep the weights with the best
nearest-prototype accuracy on the validation classes. Finished trainings are reused; rerun the same command to resume an
interrupted one after its last finished epoch. checkpoint=FILE takes the weights of a file, written by any program,
instead of training. pretrained= takes published weights and does not train either: training always starts from random
weights."""
EXAMPLES = (
    "",
    "benchmark=omniglot root=FOLDER backbone=conv4",
    "benchmark=glyphs epochs=5 seed=0,1,2",
    "benchmark=mini root=FOLDER backbone=conv4 checkpoint=model_best.pth.tar",
    "benchmark=mini root=FOLDER backbone=resnet18_84 devices=4",
    "backbone=resnet18 --dry-run",
)


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    return write_usage("train", ABOUT, TrainConfig, FLAGS, EXAMPLES, settings)


def run(flags: Flags, console: Console) -> int:
    """Train the backbones of the settings, and print the paths of the checkpoints."""
    from runs.cli.session import Session
    from runs.stages.checkpoints import CHECKPOINT

    configs = parse(TrainConfig, flags.settings)
    if any(config.features is not None for config in configs):
        raise InputError("features= needs no training; use it with transduce evaluate or transduce tune")
    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    rows = []
    for config in configs:
        checkpoint = session.checkpoint(config, force=flags.force)
        rows.append(
            {
                "config": config.as_json(),
                "checkpoint": str(checkpoint.path / CHECKPOINT),
                "key": checkpoint.key,
                "run": checkpoint.run,
                "reused": checkpoint.reused,
                **checkpoint.metrics,
            }
        )
    if console.as_json:
        console.json(rows)
    else:
        console.table(
            [
                {
                    "training": f"{config.benchmark.name}/{config.backbone.name}",
                    **session.varying(config),
                    "validation accuracy": _percent(row.get("best_validation_accuracy")),
                    "epochs": _count(row.get("epochs")),
                    "": "reused" if row["reused"] else "new",
                    "checkpoint": str(row["checkpoint"]),
                }
                for config, row in zip(configs, rows, strict=True)
            ],
            right=("validation accuracy", "epochs"),
        )
    session.close()
    return 0


def _percent(value: object) -> str:
    return f"{100 * value:.2f} %" if isinstance(value, float) else ""


def _count(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, (int, float)) else ""
