"""Any text as LaTeX, set with the fonts that every installation has."""

import re
import unicodedata

APART = "\N{ZERO WIDTH SPACE}"  # between hyphens that shall not become a dash
# A sign, and what LaTeX is told instead.
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
≠ $\neq$
∞ $\infty$
– --
— ---
‘ `
’ '
“ ``
” ''
… \dots{}
ß \ss{}
ø \o{}
Ø \O{}
ł \l{}
Ł \L{}
æ \ae{}
""".strip().splitlines()  # noqa: RUF001
) | {APART: "{}"}
GREEK = dict(
    re.findall(
        r"(\w) (\w+)",
        """α alpha, β beta, γ gamma, δ delta, ε varepsilon, ζ zeta, η eta, θ theta, ι iota, κ kappa, λ lambda, μ mu,
        ν nu, ξ xi, π pi, ρ rho, σ sigma, τ tau, υ upsilon, φ varphi, χ chi, ψ psi, ω omega, Γ Gamma, Δ Delta,
        Θ Theta, Λ Lambda, Ξ Xi, Π Pi, Σ Sigma, Υ Upsilon, Φ Phi, Ψ Psi, Ω Omega""",  # noqa: RUF001
    )
)
ACCENTS = {
    "\N{COMBINING GRAVE ACCENT}": "`",
    "\N{COMBINING ACUTE ACCENT}": "'",
    "\N{COMBINING CIRCUMFLEX ACCENT}": "^",
    "\N{COMBINING TILDE}": "~",
    "\N{COMBINING DIAERESIS}": '"',
    "\N{COMBINING RING ABOVE}": "r",
    "\N{COMBINING CEDILLA}": "c",
    "\N{COMBINING CARON}": "v",
    "\N{COMBINING BREVE}": "u",
}


def escape(text: str) -> str:
    """Text that LaTeX shows as it is, on one line; -> is an arrow, and a sign without a font its code point."""
    joined = re.sub("-(?=-)", f"-{APART}", " ".join(text.split()).replace("->", "→"))
    told = "".join(map(_told, unicodedata.normalize("NFC", joined)))
    return re.sub(r"(?<![\w.])([+-])(?=\d)", r"$\1$", told)


def _told(sign: str) -> str:
    if sign in SIGNS:
        return SIGNS[sign]
    if sign in GREEK:
        return f"$\\{GREEK[sign]}$"
    if sign.isascii():
        return sign if sign.isprintable() else ""
    parts = unicodedata.normalize("NFKD", sign)
    plain = "".join(part for part in parts if part not in ACCENTS)
    if not plain.isascii() or not plain.isprintable():
        return f"U+{ord(sign):04X}"
    for accent in parts[len(plain) :]:
        plain = f"\\{ACCENTS[accent]}{{{plain}}}"
    return plain
