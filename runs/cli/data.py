"""`transduce data`: whether a benchmark's files are whole, and where they come from."""

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
SHOWN = 20  # lines of one kind on the screen; --json has them all
INCOMPLETE = 2
ABOUT = """\
usage: transduce data check benchmark=NAME [key=value ...] [--flag ...]
       transduce data where NAME

check looks at every picture of a benchmark: counts classes and pictures, decodes each, names what is missing, too much
or broken, finds pictures that stand in two splits, and prints a fingerprint of the pictures, which tells copies apart,
whatever form the files have; of known copies it says which one this is. It ends with 2 where something is missing, too
much or broken. Pictures that are there twice are named, and are no error: some benchmarks came out with such. It
writes nothing.
where says where a benchmark's pictures come from, and which folder to name.

keys:
  benchmark=glyphs   one of {names}; its fields, such as root, are keys

flags:
{flags}

examples:
  transduce data where mini
  transduce data check benchmark=mini root=FOLDER
  transduce data check benchmark=cub root=CUB_200_2011 --json
"""


def usage(settings: Sequence[str]) -> str:
    """The help of this verb."""
    return ABOUT.format(flags=describe(FLAGS), names=", ".join(groups.names("benchmark")))


def run(flags: Flags, console: Console) -> int:
    """Check files, or say where they are from."""
    words = [setting for setting in flags.settings if "=" not in setting]
    keys = [setting for setting in flags.settings if "=" in setting]
    if not words:
        raise InputError(
            "say what to do: transduce data check benchmark=NAME root=FOLDER, or transduce data where NAME"
        )
    if words[0] == "check":
        if words[1:]:
            raise InputError(f"{words[1]!r} is no key; write transduce data check benchmark=NAME root=FOLDER")
        return _check(keys, console)
    if words[0] == "where":
        if keys or len(words) != 2:
            names = ", ".join(groups.names("benchmark"))
            raise InputError(f"where takes the name of one benchmark, such as transduce data where mini: {names}")
        return _where(words[1], console)
    raise unknown("action", words[0], ("check", "where"))


def _where(name: str, console: Console) -> int:
    chosen = groups.option("benchmark", name)
    from fsl.benchmarks.listed import ListedBenchmark

    about: dict[str, str] = {"benchmark": name, "about": groups.comment("benchmark", name)}
    if issubclass(chosen.kind, ListedBenchmark):
        about |= {"from": chosen.kind.catalogue.home, "root": f"a folder with {chosen.kind.catalogue.wanted}"}
    elif "root" in chosen.options:
        about["root"] = groups.comments("benchmark", name).get("root", "")
    else:
        about["from"] = "it needs no files"
    if console.as_json:
        console.json(about)
        return 0
    lines = [about["about"] or name, *(f"{key}: {about[key]}" for key in ("from", "root") if about.get(key))]
    if "root" in about:
        lines.append(f"then: transduce data check benchmark={name} root=FOLDER")
    console.write("\n".join(lines))
    return 0


def _check(keys: Sequence[str], console: Console) -> int:
    configs = parse(TrainConfig, keys)
    if len(configs) > 1:
        raise InputError("check takes one benchmark at a time; give each key one value")
    chosen = configs[0].benchmark
    for key in keys:
        name = split(key)[0].removeprefix("benchmark.")
        if name not in ("benchmark", *chosen.options):
            raise unknown("key", name, ("benchmark", *chosen.options))
    from fsl.benchmarks.survey import survey

    benchmark = chosen.build()
    found = survey(benchmark, console)
    if console.as_json:
        console.json(_record(chosen.name, found))
    else:
        _show(found, console)
    if not found.sound:
        root = chosen.options.get("root")
        console.error(f"transduce: benchmark {chosen.name}: {root} is not as it should be; see above")
        return INCOMPLETE
    return 0


def _show(found: "Survey", console: Console) -> None:
    rows = [
        {
            "split": part.split,
            "classes": _of(part.classes, part.expected_classes),
            "pictures": _of(part.pictures, part.expected_pictures),
            "broken": f"{len(part.broken):,}",
        }
        for part in found.splits
    ]
    title = f"{found.layout}, fingerprint {found.fingerprint}"
    console.table(rows, title=title, right=("classes", "pictures", "broken"))
    console.write(f"copy: {found.copy or 'none that is known here'}")
    for part in found.splits:
        for kind in ("missing", "extra", "broken"):
            _lines(console, f"{part.split}: {kind}", getattr(part, kind))
    for kind, groups_of in _kinds(found).items():
        lines = [
            "  =  ".join(f"{_short(spot.name)} ({spot.split}, {spot.class_name})" for spot in g) for g in groups_of
        ]
        _lines(console, kind, lines)
    if found.twins:
        known = ": the copy named above has them" if found.copy else ""
        console.write(f"pictures that are there twice are no error{known}")


def _kinds(found: "Survey") -> dict[str, list[Any]]:
    """Groups of equal pictures, by what is wrong with them."""
    kinds: dict[str, list[Any]] = {}
    for group in found.twins:
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
            console.write(f"  and {len(lines) - SHOWN:,} more; --json has all")


def _of(there: int, expected: int) -> str:
    return f"{there:,} of {expected:,}" if expected else f"{there:,}"


def _short(name: str) -> str:
    """The end of a picture's name: what is behind the file that holds many, or the last folder and the file."""
    return name.rpartition(": ")[2] if ": " in name else "/".join(name.replace("\\", "/").split("/")[-2:])


def _record(name: str, found: "Survey") -> Mapping[str, Any]:
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
        "sound": found.sound,
        "layout": found.layout,
        "fingerprint": found.fingerprint,
        "copy": found.copy or None,
        "splits": [described(part) for part in found.splits],
        "twins": [[spot._asdict() for spot in group] for group in found.twins],
    }
