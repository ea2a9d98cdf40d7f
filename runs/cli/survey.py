"""The survey of a benchmark's files on the console and as JSON."""

from typing import TYPE_CHECKING, Any

from runs.console.output import Console

if TYPE_CHECKING:
    from fsl.benchmarks.survey import Survey

SHOWN = 20  # lines of one kind on the screen; --json has them all


def as_json(name: str, checked: "Survey") -> dict[str, Any]:
    """Return the counts, problems and duplicates of each split."""
    splits = []
    for split, (classes, pictures) in checked.expected.items():
        rows = checked.pictures[checked.pictures["split"] == split]
        counts = {"classes": rows["class_name"].nunique(), "pictures": len(rows)}
        expected = {"expected_classes": classes or None, "expected_pictures": pictures or None}
        broken = rows["problem"][rows["problem"] != ""].tolist()
        splits.append({"split": split, **counts, **expected, "problems": checked.problems[split], "broken": broken})
    twins = [group[["split", "class_name", "name"]].to_dict("records") for group in checked.twins()]
    facts = {"layout": checked.layout, "fingerprint": checked.fingerprint}
    return {"benchmark": name, "sound": checked.sound, **facts, "splits": splits, "twins": twins}


def show(facts: dict[str, Any], console: Console) -> None:
    """Print what `as_json` returns as a table of the splits, then the problems by kind."""
    rows, listed = [], dict[str, list[str]]()
    for part in facts["splits"]:
        counts = {name: (part[name], part[f"expected_{name}"]) for name in ("classes", "pictures")}
        cells = {name: f"{count:,}" + (f" of {all_:,}" if all_ else "") for name, (count, all_) in counts.items()}
        rows.append({"split": part["split"], **cells, "broken": f"{len(part['broken']):,}"})
        listed |= {f"{part['split']}: {kind}": part[kind] for kind in ("problems", "broken")}
    for spots in facts["twins"]:
        apart = [name for name in ("split", "class_name") if len({spot[name] for spot in spots}) > 1]
        where = "in two splits" if "split" in apart else "in two classes" if apart else "twice in a class"
        same = (f"{_short(spot['name'])} ({spot['split']}, {spot['class_name']})" for spot in spots)
        listed.setdefault(f"the same picture {where}", []).append("  =  ".join(same))
    title = f"{facts['layout']}, fingerprint {facts['fingerprint']}"
    console.table(rows, title=title, right=("classes", "pictures", "broken"))
    for kind, lines in listed.items():
        more = [f"and {len(lines) - SHOWN:,} more; --json lists all"] if len(lines) > SHOWN else []
        if lines:
            console.write("\n  ".join([f"{kind} ({len(lines):,})", *lines[:SHOWN], *more]))
    if facts["twins"]:
        console.write("duplicate pictures are no error")


def _short(name: str) -> str:
    """Return the end of a picture's name: its name inside a container file, or its last folder and file name."""
    return name.rpartition(": ")[2] if ": " in name else "/".join(name.replace("\\", "/").split("/")[-2:])
