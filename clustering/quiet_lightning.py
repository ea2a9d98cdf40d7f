"""Lightning without its messages."""

import logging
import warnings


class silent_lightning:
    """Lightning's messages and warnings are for people who write its modules, not for those who train."""

    def __enter__(self) -> None:
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        for module in ("pytorch_lightning", "lightning_fabric"):
            warnings.filterwarnings("ignore", module=rf"{module}\b.*")
        names = [n for n in logging.root.manager.loggerDict if n.startswith(("pytorch_lightning", "lightning"))]
        self._levels = {name: logging.getLogger(name).level for name in names}
        for name in names:
            logging.getLogger(name).setLevel(logging.ERROR)

    def __exit__(self, *exception: object) -> None:
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
        self._warnings.__exit__(*exception)  # type: ignore[arg-type]
