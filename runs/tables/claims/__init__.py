"""Claims of the papers, checked on the results of their tables. `runs/published/claims.yaml` states them.

Verdicts on single cells are in `runs.tables.judging`.
"""

from runs.tables.claims import clustering, fair, few_shot
from runs.tables.claims.claim import Read, checked, published_claims
from runs.tables.table import Finding, Table

SECTIONS = {"few_shot": few_shot, "clustering": clustering, "fair": fair}
"""The tests of the claims of each section, and the settings that they are checked on."""
CLAIMS = {name: published_claims(name, vars(section)) for name, section in SECTIONS.items()}


def findings_of(table: Table, read: Read) -> list[Finding]:
    """Check every claim on a table.

    Args:
        read: reads what the runs of a filled cell have saved, by seed.
    """
    return [
        finding
        for name, section in SECTIONS.items()
        for finding in checked(CLAIMS[name], section.settings(table), read)
    ]
