"""Claims of the papers, tested on the results of their tables. `runs/published/claims.yaml` states them, the modules of
this folder hold their tests.

Verdicts on single cells are in `runs.tables.judging`.
"""

from runs.tables.claims import clustering, fair, few_shot
from runs.tables.claims.claim import Read, published_claims
from runs.tables.table import Finding, Table

SECTIONS = {"few_shot": few_shot, "clustering": clustering, "fair": fair}
"""The tests of the claims of each section, and the settings that they are tested in."""
CLAIMS = {name: published_claims(name, vars(section)) for name, section in SECTIONS.items()}


def findings_of(table: Table, read: Read) -> list[Finding]:
    """Check every claim on a table."""
    found = []
    for name, section in SECTIONS.items():
        if settings := section.settings(table):
            found += [finding for claim in CLAIMS[name] for finding in claim.findings(settings, read)]
    return found
