"""`transduce label`: a session from its config, its page, and its export at the end."""

import os
import re
import webbrowser
from typing import TYPE_CHECKING

import numpy as np

from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from runs.cache import Store
from runs.labelling import views
from runs.labelling.journal import Given
from runs.labelling.label_config import LabelConfig
from runs.labelling.labeller import OPEN, labeller_of
from runs.labelling.next_items import labels_so_far
from runs.labelling.pile import read_pile
from runs.labelling.session import Session
from runs.record.server import LOOPBACK, has_screen
from runs.storage.locks import try_locked

if TYPE_CHECKING:
    from runs.console.output import Console


def label(config: LabelConfig, store: Store, console: "Console", *, browse: bool) -> None:
    """Open the page of a session until Ctrl-C, and write its labels and predictions.

    Args:
        config: the config, with checked paths.
        store: the store.
        console: shows messages.
        browse: open a browser, if there is a screen.

    Raises:
        InputError: the pile cannot be used, or another process has the session open.
    """
    from runs.labelling.server import last_page, listen, serve

    place = os.path.realpath(config.place)
    name = re.sub(r"[^\w.-]+", "_", config.session or os.path.basename(place), flags=re.ASCII).strip("._")[:60]
    folder = store.root / "labelling" / f"{name or 'pile'}-{fingerprint(place, config.session or '')[:8]}"
    store.prepare()
    folder.mkdir(parents=True, exist_ok=True)
    with try_locked(folder / "lock") as free:
        if not free:
            console.write(last_page(folder))
            raise InputError(
                f"{folder}: this session is open in another process; its page is above, or end that process first"
            )
        pile = read_pile(config, store, console)
        labeller = labeller_of(config, pile, store, console)
        names = config.class_names()
        session = Session(pile, labeller, folder, classes=names, batch_size=config.batch, say=console.note)
        try:
            _begin_with(session, config, console)
            opened, page = listen(folder, config.host, config.port)
            console.error(f"{len(pile):,} {pile.noun}s, {session.number:,} answers so far: {folder}")
            console.error("press Ctrl-C to end the session; its page is")
            console.write(page)  # a result: messages are written without secrets
            if config.host not in LOOPBACK:
                console.error(f"warning: host={config.host} lets other machines that know the address read and answer")
            if browse and has_screen():
                webbrowser.open(page)
            serve(session, opened, page, config.host)
            session.step(ask=False)
            for kind in ("csv", "parquet") if session.number else ():
                console.note(f"labels and predictions: {views.export(session, kind)}")
        finally:
            session.close()


def _begin_with(session: Session, config: LabelConfig, console: "Console") -> None:
    """Give the labels of the config's file as the first answers; a session that has answers is kept."""
    if config.labels and session.number:
        console.note(f"labels={config.labels} is not read: this session has answers; session=NAME begins another")
    elif config.labels:
        names = list(session.classes)
        labels = labels_so_far(config, session.pile, names, console)
        for name in names:
            session.add_class(name)
        known = [(session.pile.ids[row], names[labels[row]]) for row in np.flatnonzero(labels != OPEN)]
        session.answer(config.labels, [Given(id=item, version=0, action="label", label=name) for item, name in known])
