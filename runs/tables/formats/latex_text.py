"""Escape any text for LaTeX, using only fonts that every installation has."""

import re
import unicodedata

APART = "\N{ZERO WIDTH SPACE}"  # keeps LaTeX from joining hyphens into a dash
# A character, and its LaTeX code.
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
    """Text escaped for LaTeX, on one line. -> becomes an arrow, and a character without a font its code point."""
    joined = re.sub("-(?=-)", f"-{APART}", " ".join(text.split()).replace("->", "→"))
    written = "".join(map(_latex, unicodedata.normalize("NFC", joined)))
    return re.sub(r"(?<![\w.])([+-])(?=\d)", r"$\1$", written)


def _latex(sign: str) -> str:
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
