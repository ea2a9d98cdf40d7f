"""The survey of a benchmark's files on the console and as JSON."""

from typing import TYPE_CHECKING, Any

from runs.console.output import Console

if TYPE_CHECKING:
    from fsl.benchmarks.survey import Survey

SHOWN = 20  # lines of one kind on the screen; --json has them all


def show(checked: "Survey", console: Console) -> None:
    rows, listed = [], dict[str, list[str]]()
    for part in _splits(checked):
        found = {
            name: f"{part[name]:,}" + (f" of {part[f'expected_{name}']:,}" if part[f"expected_{name}"] else "")
            for name in ("classes", "pictures")
        }
        rows.append({"split": part["split"], **found, "broken": f"{len(part['broken']):,}"})
        listed |= {f"{part['split']}: {kind}": part[kind] for kind in ("problems", "broken")}
    twins = checked.twins()
    for group in twins:
        apart = [name for name in ("split", "class_name") if group[name].nunique() > 1]
        where = "in two splits" if "split" in apart else "in two classes" if apart else "twice in a class"
        same = (f"{_short(spot['name'])} ({spot['split']}, {spot['class_name']})" for spot in group.to_dict("records"))
        listed.setdefault(f"the same picture {where}", []).append("  =  ".join(same))
    title = f"{checked.layout}, fingerprint {checked.fingerprint}"
    console.table(rows, title=title, right=("classes", "pictures", "broken"))
    for kind, lines in listed.items():
        more = [f"and {len(lines) - SHOWN:,} more; --json lists all"] if len(lines) > SHOWN else []
        if lines:
            console.write("\n  ".join([f"{kind} ({len(lines):,})", *lines[:SHOWN], *more]))
    if twins:
        console.write("duplicate pictures are no error")


def _short(name: str) -> str:
    """Return the end of a picture's name: its name inside a container file, or its last folder and file name."""
    return name.rpartition(": ")[2] if ": " in name else "/".join(name.replace("\\", "/").split("/")[-2:])


def _splits(checked: "Survey") -> list[dict[str, Any]]:
    splits = []
    for split, (classes, pictures) in checked.expected.items():
        rows = checked.pictures[checked.pictures["split"] == split]
        counts = {"classes": rows["class_name"].nunique(), "pictures": len(rows)}
        expected = {"expected_classes": classes or None, "expected_pictures": pictures or None}
        broken = rows["problem"][rows["problem"] != ""].tolist()
        splits.append({"split": split, **counts, **expected, "problems": checked.problems[split], "broken": broken})
    return splits


def as_json(name: str, checked: "Survey") -> dict[str, Any]:
    twins = [group[["split", "class_name", "name"]].to_dict("records") for group in checked.twins()]
    facts = {"layout": checked.layout, "fingerprint": checked.fingerprint}
    return {"benchmark": name, "sound": checked.sound, **facts, "splits": _splits(checked), "twins": twins}
