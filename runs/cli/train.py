"""`transduce train`: train a backbone on the base classes of a benchmark."""

from collections.abc import Sequence

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags
from runs.config.configs import TrainConfig, parse
from runs.console.output import Console

FLAGS = ("dry-run", "force", "json")
ABOUT = """\
Train a backbone with cross-entropy on the base classes of a benchmark, and keep the weights that are best at
nearest-prototype classification of the validation classes. An interrupted training goes on at its last
finished epoch when the same command is given again; a finished one is used again. With checkpoint=FILE
nothing is trained: the weights in the file are taken instead, whatever program wrote them. Nor is a network
with pretrained=: it is used as it is, as a training cannot begin with given weights."""
EXAMPLES = (
    "",
    "benchmark=omniglot root=FOLDER backbone=conv4",
    "benchmark=glyphs epochs=5 seed=0,1,2",
    "benchmark=mini root=FOLDER backbone=conv4 checkpoint=model_best.pth.tar",
    "benchmark=mini root=FOLDER backbone=resnet18_84 devices=4",
    "backbone=resnet18 --dry-run",
)


def usage(settings: Sequence[str]) -> str:
    """The help of this verb."""
    from runs.cli.usage import usage as write_usage

    return write_usage("train", ABOUT, TrainConfig, FLAGS, EXAMPLES, settings)


def run(flags: Flags, console: Console) -> int:
    """Train what the settings ask for, and say where it is."""
    from runs.cli.session import Session

    configs = parse(TrainConfig, flags.settings)
    if any(config.features is not None for config in configs):
        raise InputError("features= are there already, so nothing is trained; transduce evaluate and tune take them")
    session = Session(configs, console)
    if flags.dry_run:
        session.show_plan()
        return 0
    rows = []
    for config in configs:
        made = session.checkpoint(config, force=flags.force)
        rows.append(
            {
                "config": config.as_json(),
                "checkpoint": str(made.path),
                "identity": made.identity,
                "run": made.run_id,
                "reused": made.reused,
                **{key: value for key, value in made.facts.items() if isinstance(value, (int, float))},
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
                    "validation accuracy": _percent(row.get("validation_accuracy")),
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
