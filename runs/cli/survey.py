"""The survey of a benchmark's files on the console and as JSON."""

import dataclasses
from typing import TYPE_CHECKING, Any

from runs.console.output import Console

if TYPE_CHECKING:
    from fsl.benchmarks.survey import Survey

SHOWN = 20  # lines of one kind on the screen; --json has them all


def show(checked: "Survey", console: Console) -> None:
    rows, listed = [], dict[str, list[str]]()
    for part in checked.splits:
        counts = {"classes": part.expected_classes, "pictures": part.expected_pictures}
        found = {name: f"{getattr(part, name):,}" + (f" of {n:,}" if n else "") for name, n in counts.items()}
        rows.append({"split": part.split, **found, "broken": f"{len(part.broken):,}"})
        listed |= {f"{part.split}: {kind}": list(getattr(part, kind)) for kind in ("problems", "broken")}
    for group in checked.twins:
        classes, splits = ({getattr(spot, name) for spot in group} for name in ("class_name", "split"))
        where = "two splits" if len(splits) > 1 else "two classes" if len(classes) > 1 else "a class"
        kind = f"the same picture {'in' if where != 'a class' else 'twice in'} {where}"
        same = (f"{_short(spot.name)} ({spot.split}, {spot.class_name})" for spot in group)
        listed.setdefault(kind, []).append("  =  ".join(same))
    title = f"{checked.layout}, fingerprint {checked.fingerprint}"
    console.table(rows, title=title, right=("classes", "pictures", "broken"))
    for kind, lines in listed.items():
        more = [f"and {len(lines) - SHOWN:,} more; --json lists all"] if len(lines) > SHOWN else []
        if lines:
            console.write("\n  ".join([f"{kind} ({len(lines):,})", *lines[:SHOWN], *more]))
    if checked.twins:
        console.write("duplicate pictures are no error")


def _short(name: str) -> str:
    """Return the end of a picture's name: its name inside a container file, or its last folder and file name."""
    return name.rpartition(": ")[2] if ": " in name else "/".join(name.replace("\\", "/").split("/")[-2:])


def as_json(name: str, checked: "Survey") -> dict[str, Any]:
    facts = dataclasses.asdict(checked)
    for part in facts["splits"]:
        part |= {count: part[count] or None for count in ("expected_classes", "expected_pictures")}
    twins = [[spot._asdict() for spot in group] for group in checked.twins]
    return {"benchmark": name, "sound": checked.sound, **facts, "twins": twins}
