"""`transduce label`: label a pile of pictures or rows on a local page, which labels the rest after every batch."""

from collections.abc import Sequence

from clustering.foundation.errors import InputError
from runs.cli.flags import Flags
from runs.config.classify import without_shift
from runs.config.configs import parse
from runs.config.label import LabelConfig
from runs.config.overrides import write
from runs.console.output import Console

FLAGS = ("finish", "no-browser", "json")
KEYS = (
    *("pile", "features", "show", "pictures", "classes", "backbone", "pretrained", "strategy", "selection", "session"),
    *("text_features", "batch", "truth", "host", "port"),
)
DEFAULTS = {"strategy": "smoothed_ridge"}
ABOUT = """\
Label a pile on a page in the browser: a folder of pictures, a table with a column of features, or a file of features.
The page shows a few items at a time, and one key gives a class. After each batch, the strategy labels the whole pile
anew, and the page shows the predictions of each class, least certain first, their estimated accuracy, and the next
items to label. The pictures' features are computed by a network (backbone=timm:NAME, backbone=open_clip:NAME or a
checkpoint).

Every answer is on the disk before the page says so. The same command continues a session; several people can work on
one page at a time. Ctrl-C ends the page and records the session as a run; --finish records it without a page. The page
listens on this machine only, and its address contains a secret; with --host, other machines that know the address can
read the pile and answer. These keys may be written as flags: pile, features, show, pictures, classes, backbone,
pretrained, strategy, selection, session, text-features, batch, truth, host, port."""
EXAMPLES = (
    "pictures --backbone timm:vit_small_patch14_dinov2",
    "pictures --classes cat,dog --backbone open_clip:ViT-B-32 --pretrained laion2b_s34b_b79k",
    "table.parquet --features emb --show text,image --classes spam,ham",
    "table.csv --features 'emb_*' --show title",
    "features.npy --pictures pictures",
    "pictures --backbone best.safetensors --finish",
)


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    from runs.cli.usage import usage as write_usage

    settings = with_pile(settings, "label")
    configs = [without_shift(config, settings) for config in parse(LabelConfig, settings, DEFAULTS)]
    return write_usage("label", ABOUT, LabelConfig, FLAGS, EXAMPLES, settings, configs=configs, defaults=DEFAULTS)


def run(flags: Flags, console: Console) -> int:
    """Open the page, and record the session when it ends."""
    settings = with_pile(flags.settings, "label")
    configs = [without_shift(config, settings) for config in parse(LabelConfig, settings, DEFAULTS)]
    if len(configs) > 1:
        raise InputError("label accepts one value of every key")
    if flags.json and not flags.finish:
        raise InputError("--json writes the facts of a session that --finish records; add --finish, or omit it")
    configs[0].check_places()

    from runs.cli.session import Session as Run
    from runs.labelling.opening import label

    place = Run(configs, console)
    facts = label(configs[0], place.store, place.tracker, console, finish=flags.finish, browse=not flags.no_browser)
    if console.as_json:
        console.json(facts)
    place.close()
    return 0


def with_pile(settings: Sequence[str], verb: str, after: Sequence[str] = ()) -> list[str]:
    """The settings, with arguments that have no `=` as the values of `pile`, and of the keys `after` it.

    Raises:
        InputError: there are more such arguments.
    """
    plain = [setting for setting in settings if "=" not in setting]
    keys = ("pile", *after)
    if len(plain) > len(keys):
        raise InputError(f"{plain[len(keys)]!r}: transduce {verb} takes {' and '.join(keys)}, and keys with =")
    named = [f"{key}={write(value)}" for key, value in zip(keys, plain, strict=False)]
    return [*named, *(setting for setting in settings if "=" in setting)]
