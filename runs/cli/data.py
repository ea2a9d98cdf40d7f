"""`transduce data`: check a benchmark's files, or show where to get those of any data set."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clustering.foundation.errors import InputError, unknown
from runs.cli.flags import Flags, describe
from runs.config import groups
from runs.config.configs import TrainConfig, parse
from runs.config.overrides import split
from runs.console.output import Console

if TYPE_CHECKING:
    from fsl.benchmarks.survey import SplitSurvey, Survey

FLAGS = ("json",)
THEN = {
    "benchmark": "transduce data check benchmark",
    "dataset": "transduce cluster dataset",
    "fair_dataset": "transduce fair dataset",
}  # beginning of the command that reads the files, by the group of the data
PLACES = {"root": "FOLDER", "path": "FILE"}  # keys that name the files of data
SHOWN = 20  # lines of one kind on the screen; --json has them all
INCOMPLETE = 2
ABOUT = """\
usage: transduce data check benchmark=NAME [key=value ...] [--flag ...]
       transduce data where NAME

check reads every picture of a benchmark. It counts classes and pictures, decodes each picture, and lists missing,
superfluous and broken ones, and pictures that occur in two splits. It prints a fingerprint of the pictures, which does
not depend on the file format, and names the published copy if the fingerprint is known. The exit code is 2 if pictures
are missing, superfluous or broken. Duplicates are listed, but are no error: some benchmarks were published with them.
check writes nothing.
where shows where to get a benchmark's pictures, and which folder root= must name. It also takes the data sets of
transduce cluster and transduce fair, and shows what they are and which files the folder must have.

keys:
  benchmark=glyphs   one of {names}; its fields, such as root, are keys too

flags:
{flags}

examples:
  transduce data where mini
  transduce data where shuttle
  transduce data check benchmark=mini root=FOLDER
  transduce data check benchmark=cub root=CUB_200_2011 --json
"""


def usage(settings: Sequence[str]) -> str:
    """Return the help of this verb."""
    return ABOUT.format(flags=describe(FLAGS), names=", ".join(groups.names("benchmark")))


def run(flags: Flags, console: Console) -> int:
    """Check a benchmark's files, or show where to get them."""
    words = [setting for setting in flags.settings if "=" not in setting]
    keys = [setting for setting in flags.settings if "=" in setting]
    if not words:
        raise InputError(
            "no action given: write transduce data check benchmark=NAME root=FOLDER, or transduce data where NAME"
        )
    if words[0] == "check":
        if words[1:]:
            raise InputError(f"{words[1]!r} is not a key; write transduce data check benchmark=NAME root=FOLDER")
        return _check(keys, console)
    if words[0] == "where":
        if keys or len(words) != 2:
            names = ", ".join(_known())
            raise InputError(f"where takes the name of one data set, such as transduce data where mini: {names}")
        return _where(words[1], console)
    raise unknown("action", words[0], ("check", "where"))


def _known() -> dict[str, str]:
    """The group of every data set; of two with one name, that of the benchmark or else of the clustering."""
    return {name: group for group in reversed(THEN) for name in groups.names(group)}


def _where(name: str, console: Console) -> int:
    known = _known()
    if name not in known and ":" not in name:
        raise unknown("data set", name, known)
    group = known.get(name, "benchmark")
    chosen = groups.option(group, name)
    from fsl.benchmarks.listed import ListedBenchmark

    description: dict[str, str] = {group: name, "about": groups.comment(group, name)}
    if issubclass(chosen.kind, ListedBenchmark):
        description |= {"from": chosen.kind.catalogue.home, "root": f"a folder with {chosen.kind.catalogue.wanted}"}
    elif place := next((key for key in PLACES if key in chosen.options), None):
        description[place] = groups.comments(group, name).get(place, "")
    else:
        description["from"] = f"this {'benchmark' if group == 'benchmark' else 'data set'} needs no files"
    if console.as_json:
        console.json(description)
        return 0
    lines = [
        description["about"] or name,
        *(f"{key}: {description[key]}" for key in ("from", *PLACES) if description.get(key)),
        *(f"then: {THEN[group]}={name} {key}={value}" for key, value in PLACES.items() if key in description),
    ]
    console.write("\n".join(lines))
    return 0


def _check(keys: Sequence[str], console: Console) -> int:
    configs = parse(TrainConfig, keys)
    if len(configs) > 1:
        raise InputError("check takes one benchmark; give each key one value")
    chosen = configs[0].benchmark
    for key in keys:
        name = split(key)[0].removeprefix("benchmark.")
        if name not in ("benchmark", *chosen.options):
            raise unknown("key", name, ("benchmark", *chosen.options))
    from fsl.benchmarks.survey import survey

    benchmark = chosen.build()
    checked = survey(benchmark, console)
    if console.as_json:
        console.json(_record(chosen.name, checked))
    else:
        _show(checked, console)
    if not checked.sound:
        root = chosen.options.get("root")
        console.error(f"transduce: benchmark {chosen.name}: {root} is not complete and correct; see above")
        return INCOMPLETE
    return 0


def _show(checked: "Survey", console: Console) -> None:
    rows = [
        {
            "split": part.split,
            "classes": _of(part.classes, part.expected_classes),
            "pictures": _of(part.pictures, part.expected_pictures),
            "broken": f"{len(part.broken):,}",
        }
        for part in checked.splits
    ]
    title = f"{checked.layout}, fingerprint {checked.fingerprint}"
    console.table(rows, title=title, right=("classes", "pictures", "broken"))
    console.write(f"copy: {checked.copy or 'none of the known copies'}")
    for part in checked.splits:
        for kind in ("missing", "extra", "broken"):
            _lines(console, f"{part.split}: {kind}", getattr(part, kind))
    for kind, groups_of in _kinds(checked).items():
        lines = [
            "  =  ".join(f"{_short(spot.name)} ({spot.split}, {spot.class_name})" for spot in g) for g in groups_of
        ]
        _lines(console, kind, lines)
    if checked.twins:
        known = ": the published copy has them" if checked.copy else ""
        console.write(f"duplicate pictures are no error{known}")


def _kinds(checked: "Survey") -> dict[str, list[Any]]:
    """Return groups of equal pictures, by where the duplicates occur."""
    kinds: dict[str, list[Any]] = {}
    for group in checked.twins:
        kind = "the same picture twice in a class"
        if len({spot.class_name for spot in group}) > 1:
            kind = "the same picture in two classes"
        if len({spot.split for spot in group}) > 1:
            kind = "the same picture in two splits"
        kinds.setdefault(kind, []).append(group)
    return dict(sorted(kinds.items(), reverse=True))


def _lines(console: Console, kind: str, lines: Sequence[str]) -> None:
    if lines:
        console.write(f"{kind} ({len(lines):,})")
        console.write("\n".join(f"  {line}" for line in lines[:SHOWN]))
        if len(lines) > SHOWN:
            console.write(f"  and {len(lines) - SHOWN:,} more; --json lists all")


def _of(present: int, expected: int) -> str:
    return f"{present:,} of {expected:,}" if expected else f"{present:,}"


def _short(name: str) -> str:
    """Return the end of a picture's name: its name inside a container file, or its last folder and file name."""
    return name.rpartition(": ")[2] if ": " in name else "/".join(name.replace("\\", "/").split("/")[-2:])


def _record(name: str, checked: "Survey") -> Mapping[str, Any]:
    def described(part: "SplitSurvey") -> dict[str, Any]:
        return {
            "split": part.split,
            "classes": part.classes,
            "expected_classes": part.expected_classes or None,
            "pictures": part.pictures,
            "expected_pictures": part.expected_pictures or None,
            **{kind: list(getattr(part, kind)) for kind in ("missing", "extra", "broken")},
        }

    return {
        "benchmark": name,
        "sound": checked.sound,
        "layout": checked.layout,
        "fingerprint": checked.fingerprint,
        "copy": checked.copy or None,
        "splits": [described(part) for part in checked.splits],
        "twins": [[spot._asdict() for spot in group] for group in checked.twins],
    }
