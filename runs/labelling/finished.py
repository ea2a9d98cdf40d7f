"""The run of a finished session in the record."""

from typing import TYPE_CHECKING, Any

from runs.config.label import LabelConfig
from runs.storage.store import Store

if TYPE_CHECKING:
    from runs.console.output import Console
    from runs.labelling.session import Session
    from runs.record.tracking import Tracker


def record(
    session: "Session", config: LabelConfig, store: Store, tracker: "Tracker", console: "Console"
) -> dict[str, Any]:
    """Record the session."""
    return {}
