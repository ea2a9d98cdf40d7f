"""A table as LaTeX, to be \\input: the table alone. Its notes, verdicts and claims are in the Markdown file beside it.

Needs the packages booktabs and longtable.
"""

import re
import unicodedata

from runs.tables.formats import lines as shared
from runs.tables.formats import wording
from runs.tables.formats.lines import Piece
from runs.tables.table import Table

PACKAGES = ("booktabs", "longtable")
WIDTH = 80  # characters that fit side by side in a text of 345 points
SIGNS = dict(
    line.split(" ", 1)
    for line in r"""
\ \textbackslash{}
{ \{
} \}
$ \$
& \&
# \#
_ \_
% \%
~ \textasciitilde{}
^ \textasciicircum{}
` \textasciigrave{}
< $<$
> $>$
| $|$
" ''
± $\pm$
× $\times$
· $\cdot$
→ $\to$
− $-$
≤ $\leq$
≥ $\geq$
– --
— ---
’ '
ß \ss{}
ø \o{}
Ø \O{}
""".strip().splitlines()  # noqa: RUF001
) | {"\N{ZERO WIDTH SPACE}": "{}"}
ACCENTS = dict(zip("\u0300\u0301\u0302\u0303\u0308\u030a\u0327\u030c", "`'^~\"rcv", strict=True))
GREEK = {"epsilon": "varepsilon", "phi": "varphi"}
CAPITALS = ("GAMMA", "DELTA", "THETA", "LAMDA", "XI", "PI", "SIGMA", "UPSILON", "PHI", "PSI", "OMEGA")
UNUSED = ("OMICRON", "SAN", "SHO", "HETA", "KOPPA", "SAMPI", "STIGMA", "DIGAMMA", "YOT")  # have no command


def latex(table: Table) -> str:
    """The table, in parts that fit the page, by pandas' Styler."""
    from pandas import DataFrame, MultiIndex

    shown, texts = shared.lines(table), []
    corner = [escape(wording.corner(table)), *(["kind"] if wording.kinds(table) else [])]
    for i, columns in enumerate(shared.parts(table, shown, WIDTH, gap=2)):
        rows = []
        for group, some in shared.by_group(shown, columns):
            rows += [[rf"\textbf{{{escape(group)}}}", *[""] * (len(corner) - 1 + len(columns))]] if group else []
            for line in some:
                label = escape(line.label) + _raised(line.marks) if line.first else rf"\quad\textit{{{line.label}}}"
                kind = [escape(line.row.kind) if line.first else ""] * (len(corner) - 1)
                rows.append([label, *kind, *(_piece(line.pieces.get(column, Piece(""))) for column in columns)])
        names = [(escape(column.group), _stack(shared.heading(table, column, group=False))) for column in columns]
        heads = [*(("", name) for name in corner), *names]
        grouped = any(group for group, _ in heads)
        frame = DataFrame(rows, columns=MultiIndex.from_tuples(heads) if grouped else [name for _, name in heads])
        caption = f"{escape(table.title)}." if i == 0 else f"{escape(table.name)}, continued."
        texts.append(
            frame.style.hide(axis="index").to_latex(
                hrules=True,
                environment="longtable",
                caption=caption,
                label=f"table:{table.file_name}{f'-{i + 1}' if i else ''}",
                column_format="l" * len(corner) + "r" * len(columns),
                multicol_align="c",
            )
        )
    about = f"% {table.name}, needs the packages {' and '.join(PACKAGES)}; its notes are in {table.file_name}.md\n"
    size = "{\\scriptsize\\setlength{\\tabcolsep}{3pt}%\n"
    return about + size + ("".join(texts) or f"\\noindent {escape(table.title)}.\n") + "}\n"


def _stack(lines: list[str]) -> str:
    stack = r"\\".join(map(escape, lines))
    return stack if len(lines) == 1 else rf"\shortstack[r]{{{stack}}}"


def _piece(piece: Piece) -> str:
    text = re.sub(r"(\d)e(-?\d+)(?!\w)", r"\1$\\times10^{\2}$", escape(piece.text))
    return (rf"\textbf{{{text}}}" if piece.best else text) + _raised(piece.marks)


def _raised(marks: str) -> str:
    return rf"\textsuperscript{{{marks}}}" if marks else ""


def escape(text: str) -> str:
    """Text escaped for LaTeX, on one line. -> becomes an arrow, and a character without a font its code point."""
    joined = re.sub("-(?=-)", "-\N{ZERO WIDTH SPACE}", " ".join(text.split()).replace("->", "→"))
    written = "".join(map(_latex, unicodedata.normalize("NFC", joined)))
    return re.sub(r"(?<![\w.])([+-])(?=\d)", r"$\1$", written)


def _latex(sign: str) -> str:
    if sign in SIGNS:
        return SIGNS[sign]
    if sign.isascii():
        return sign if sign.isprintable() else ""
    greek = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER ([A-Z]+)", unicodedata.name(sign, ""))
    if greek and (greek[2] in CAPITALS if greek[1] == "CAPITAL" else greek[2] not in UNUSED):
        word = greek[2].lower().replace("lamda", "lambda")
        return f"$\\{GREEK.get(word, word) if greek[1] == 'SMALL' else word.capitalize()}$"
    parts = unicodedata.normalize("NFKD", sign)
    plain = "".join(part for part in parts if part not in ACCENTS)
    if not plain.isascii() or not plain.isprintable():
        return f"U+{ord(sign):04X}"
    for accent in parts[len(plain) :]:
        plain = f"\\{ACCENTS[accent]}{{{plain}}}"
    return plain
