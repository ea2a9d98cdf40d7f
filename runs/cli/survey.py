"""The survey of a benchmark's files on the console and as JSON."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runs.console.output import Console

if TYPE_CHECKING:
    from fsl.benchmarks.survey import SplitSurvey, Survey

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


def as_json(name: str, checked: "Survey") -> Mapping[str, Any]:
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
