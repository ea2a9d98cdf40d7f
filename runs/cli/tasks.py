"""`transduce tasks`: write the tasks of a config to a file, for other programs and for `sampler=file`."""

import os
from collections.abc import Sequence
from pathlib import Path

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags
from runs.config.configs import EvaluateConfig, parse
from runs.console.output import Console

FLAGS = ()
ABOUT = """\
Write the tasks that `evaluate` draws for these keys to a safetensors file: the indices of the support and query images
in the split, with their labels. `sampler=file path=FILE` evaluates on exactly these tasks. Give the file first."""
EXAMPLES = ("tasks.safetensors benchmark=glyphs shot=5 tasks=1000",)


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    keys = [setting for setting in settings if "=" in setting]
    return write_usage("tasks", ABOUT, EvaluateConfig, FLAGS, EXAMPLES, keys)


def run(flags: Flags, console: Console) -> int:
    """Draw the tasks and write them."""
    files = [setting for setting in flags.settings if "=" not in setting]
    if len(files) != 1:
        raise InputError("give the file to write: transduce tasks FILE.safetensors [key=value ...]")
    keys = [setting for setting in flags.settings if "=" in setting]
    default = ["strategy=simpleshot"] if not any(key.startswith("strategy=") for key in keys) else []
    configs = parse(EvaluateConfig, [*keys, *default])
    if len(configs) > 1:
        raise InputError("tasks takes one config; give each key one value")

    from runs.cache import Store
    from runs.stages.given_features import given_bank
    from runs.stages.lineage import Lineage, labels_of
    from runs.stages.preflight import tasks_of

    config, path = configs[0], Path(files[0])
    _check_place(path)
    if config.features is not None:
        source = tasks_of(config, given_bank(config.feature_files, config.split, config.prompt))
    else:
        part = Lineage.of(config).part(config.split)
        source = tasks_of(config, labels_of(part, Store(config.results), console))
    tasks = source.first(config.count(source.limit))
    tasks.save(path)
    console.note(f"saved: {len(tasks):,} task{'s' if len(tasks) > 1 else ''} in {path}")
    return 0


def _check_place(path: Path) -> None:
    """Raise InputError if the file cannot be created, or would overwrite anything but a task list."""
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: its folder does not exist; create it, or give another path")
    if os.path.lexists(path):
        from clustering.files.tensor_headers import read_header
        from fsl.tasks import FORMAT

        if not path.is_file():
            raise InputError(f"{path} is not a file; give another path")
        read_header(path, "only task lists are overwritten; give another name", FORMAT)
