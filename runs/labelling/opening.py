"""Opening of a session from its config: its folder, features, page, and its run at the end."""

import json
import os
import re
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.files.regular import read_text
from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from fsl.episodes import Strategy
from runs.cache import Store
from runs.labelling.finished import record
from runs.labelling.label_config import LabelConfig, PileConfig
from runs.labelling.pile import Pile, read_pile
from runs.labelling.predictions import Labeller, TextOf
from runs.labelling.session import Session
from runs.record.server import address, has_screen
from runs.storage.locks import try_locked

if TYPE_CHECKING:
    from clustering.foundation.progress import Progress
    from runs.console.output import Console
    from runs.track import Tracker

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PAGE = "page.json"


def label(
    config: LabelConfig, store: Store, tracker: "Tracker", console: "Console", *, finish: bool, browse: bool
) -> dict[str, Any]:
    """Open the page of a session until Ctrl-C, and record the session as a run.

    Args:
        config: the config, with checked paths.
        store: the store.
        tracker: the record.
        console: shows messages.
        finish: record the session without opening the page.
        browse: open a browser, if there is a screen.

    Returns:
        Facts about the session, for JSON.

    Raises:
        InputError: the pile cannot be used, or another process has the session open.
    """
    folder = folder_of(config, store)
    store.prepare()
    folder.mkdir(parents=True, exist_ok=True)
    with try_locked(folder / "lock") as free:
        if not free:
            page = _page_of(folder)
            if page is not None:
                console.write(page)
            where = "its page is above" if page else "its page is shown in the terminal of the other process"
            raise InputError(f"{folder}: this session is open in another process; {where}, or end that process first")
        pile = read_pile(config, store, console)
        session = Session(
            pile,
            labeller_of(config, pile, store, console),
            folder,
            classes=config.class_names(),
            batch_size=config.batch,
            say=console.note,
        )
        try:
            if not finish:
                _open(session, config, console, browse)
                session.stop()
            if session.predicted is None or session.predicted.number < session.answers.number:
                session.label_now()
        finally:
            session.close()
        facts = record(session, config, store, tracker)
    for file in facts.get("files", ()):
        console.note(f"labels and predictions: {file}")
    return facts


def folder_of(config: LabelConfig, store: Store) -> Path:
    """The folder of a session: one for each pile, by its path, and name."""
    place = os.path.realpath(config.place)
    name = config.session or os.path.basename(place)
    short = re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("._")[:60] or "pile"
    return store.root / "labelling" / f"{short}-{fingerprint(place, config.session or '')[:8]}"


def labeller_of(config: PileConfig, pile: Pile, store: Store, progress: "Progress") -> Labeller:
    """The labeller of a pile, with the features of class names if they are given or the network computes them."""
    strategy = config.strategy.build()
    uses_text = getattr(strategy, "text", "none") != "none"
    text_of = _text_of(config, pile, store, progress) if uses_text else None
    _check_strategy(config, strategy, text_of)
    scale = config.logit_scale
    if scale is None and text_of is not None and config.text_features is None and pile.encoder is not None:
        scale = pile.encoder.logit_scale
    return Labeller(
        pile.features,
        strategy,
        selection=config.selection,
        seed=config.seed,
        text_of=text_of,
        logit_scale=scale,
    )


def _check_strategy(config: PileConfig, strategy: Strategy, text_of: TextOf | None) -> None:
    """Refuse a strategy that cannot label this pile, before anyone labels for it.

    Raises:
        InputError: the strategy requires class names, and there are none, or it trains the network on pictures.
    """
    name = config.strategy.name
    if getattr(strategy, "needs_images", False):
        raise InputError(f"strategy={name} trains the network, and only features are used here; choose another one")
    if getattr(strategy, "text", "none") == "required" and text_of is None:
        raise InputError(
            f"strategy={name} requires class names: add --classes a,b,c, and --text-features FILE or --backbone "
            "open_clip:NAME; or choose another strategy"
        )


def _text_of(config: PileConfig, pile: Pile, store: Store, progress: "Progress") -> TextOf | None:
    """Function that returns the features of class names; None if there are none."""
    if config.text_features is not None:
        from fsl.features.arrays import read_features

        given = read_features(Path(config.text_features).expanduser(), config.text_column, option="text_column")
        names = config.class_names()
        if given.shape != (len(names), pile.features.shape[1]):
            raise InputError(
                f"text_features: {config.text_features} has the shape {given.shape}; {len(names)} classes and "
                f"{pile.features.shape[1]} features of the pile need ({len(names)}, {pile.features.shape[1]})"
            )
        rows = dict(zip(names, given.astype(np.float32), strict=True))

        told = set[str]()

        def of_file(classes: Sequence[str]) -> NDArray[np.floating] | str:
            new = [name for name in classes if name not in rows]
            if not new:
                return np.stack([rows[name] for name in classes])
            problem = (
                f"text_features: {config.text_features} has no row for {', '.join(new)}, so the labels alone are used; "
                "add a row, and the name to classes, to use class names again"
            )
            if not told.issuperset(new):
                told.update(new)
                progress.note(problem)
            return problem

        return of_file
    encoder = pile.encoder
    if encoder is None or not encoder.embeds_names or config.classes is None:
        return None

    def of_network(classes: Sequence[str]) -> NDArray[np.floating]:
        from fsl.features.prompts import PROMPTS
        from runs.own_data.picture_features import encode_names

        return encode_names(classes, PROMPTS, encoder, store, progress).numpy()

    return of_network


def _open(session: Session, config: LabelConfig, console: "Console", browse: bool) -> None:
    """Serve the page until Ctrl-C."""
    from runs.labelling.server import listen, page_app, secret_of, serve, write_secret

    folder = session.folder
    earlier = None
    with suppress(OSError, ValueError, KeyError, TypeError):
        earlier = int(json.loads(read_text(folder / PAGE))["port"])
    token = secret_of(folder)
    opened = listen(config.host, config.port, earlier)
    port = int(opened.getsockname()[1])
    page = f"{address(config.host, port)}/?token={token}"
    write_secret(folder / PAGE, json.dumps({"port": port, "page": page}))
    session.start()
    console.error(f"{len(session.pile):,} {session.pile.noun}s, {session.answers.number:,} answers so far: {folder}")
    console.error("press Ctrl-C to end the session; its page is")
    console.write(page)  # a result: messages are written without secrets
    if config.host not in LOOPBACK:
        console.error(f"warning: host={config.host} lets other machines that know the address read and answer")
    if browse and has_screen():
        webbrowser.open(page)
    serve(page_app(session, token=token, host=config.host, port=port), opened)


def _page_of(folder: Path) -> str | None:
    """Address of the page of the process that has the session open; None if it cannot be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(read_text(folder / PAGE))["page"])
    return None
