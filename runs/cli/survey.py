"""The survey of a benchmark's files on the console and as JSON."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runs.console.output import Console

if TYPE_CHECKING:
    from fsl.benchmarks.survey import Spot, Survey

SHOWN = 20  # lines of one kind on the screen; --json has them all


def show(checked: "Survey", console: Console) -> None:
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
    listed: dict[str, list[str]] = {
        f"{part.split}: {kind}": list(getattr(part, kind))
        for part in checked.splits
        for kind in ("missing", "extra", "broken")
    }
    for group in sorted(checked.twins, key=_kind, reverse=True):
        same = "  =  ".join(f"{_short(spot.name)} ({spot.split}, {spot.class_name})" for spot in group)
        listed.setdefault(_kind(group), []).append(same)
    for kind, lines in listed.items():
        if lines:
            more = [f"and {len(lines) - SHOWN:,} more; --json lists all"] if len(lines) > SHOWN else []
            console.write("\n  ".join([f"{kind} ({len(lines):,})", *lines[:SHOWN], *more]))
    if checked.twins:
        console.write("duplicate pictures are no error" + (": the published copy has them" if checked.copy else ""))


def _kind(group: "Sequence[Spot]") -> str:
    """Return where equal pictures occur."""
    if len({spot.split for spot in group}) > 1:
        return "the same picture in two splits"
    if len({spot.class_name for spot in group}) > 1:
        return "the same picture in two classes"
    return "the same picture twice in a class"


def _of(present: int, expected: int) -> str:
    return f"{present:,} of {expected:,}" if expected else f"{present:,}"


def _short(name: str) -> str:
    """Return the end of a picture's name: its name inside a container file, or its last folder and file name."""
    return name.rpartition(": ")[2] if ": " in name else "/".join(name.replace("\\", "/").split("/")[-2:])


def as_json(name: str, checked: "Survey") -> Mapping[str, Any]:
    facts = dataclasses.asdict(checked)
    for part in facts["splits"]:
        for count in ("expected_classes", "expected_pictures"):
            part[count] = part[count] or None
    twins = [[spot._asdict() for spot in group] for group in checked.twins]
    return {"benchmark": name, "sound": checked.sound, **facts, "copy": checked.copy or None, "twins": twins}
