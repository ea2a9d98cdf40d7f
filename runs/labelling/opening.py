"""`transduce label`: a session from its config, its page, and its export at the end."""

import os
import re
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clustering.foundation.errors import InputError
from clustering.foundation.fingerprint import fingerprint
from runs.cache import Store
from runs.labelling import views
from runs.labelling.label_config import LabelConfig, PileConfig
from runs.labelling.labeller import Labeller, TextOf
from runs.labelling.pile import Pile, read_pile
from runs.labelling.session import Session
from runs.record.server import has_screen
from runs.storage.locks import try_locked

if TYPE_CHECKING:
    from clustering.foundation.progress import Progress
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
    from runs.labelling.server import last_page

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
            _open(session, config, console, browse)
            session.step(ask=False)
            for kind in ("csv", "parquet") if session.answers.number else ():
                console.note(f"labels and predictions: {views.export(session, kind)}")
        finally:
            session.close()


def labeller_of(config: PileConfig, pile: Pile, store: Store, progress: "Progress") -> Labeller:
    """The labeller of a pile, with the features of class names if they are given or the network computes them.

    Raises:
        InputError: the strategy cannot label this pile: it trains a network, or there are no class names for it.
    """
    strategy, name = config.strategy.build(), config.strategy.name
    if getattr(strategy, "needs_images", False):
        raise InputError(f"strategy={name} trains the network, and only features are used here; choose another one")
    use = getattr(strategy, "text", "none")
    text_of = _text_of(config, pile, store, progress) if use != "none" else None
    if use == "required" and text_of is None:
        raise InputError(
            f"strategy={name} requires class names: add --classes a,b,c, and --text-features FILE or --backbone "
            "open_clip:NAME; or choose another strategy"
        )
    scale = config.logit_scale
    if scale is None and text_of is not None and config.text_features is None and pile.encoder is not None:
        scale = pile.encoder.logit_scale
    options: dict[str, Any] = {"selection": config.selection, "seed": config.seed}
    return Labeller(pile.features, strategy, text_of=text_of, logit_scale=scale, **options)


def _text_of(config: PileConfig, pile: Pile, store: Store, progress: "Progress") -> TextOf | None:
    """Function that returns the features of class names; None if there are none."""
    if config.text_features is not None:
        from fsl.features.arrays import read_features

        given = read_features(Path(config.text_features).expanduser(), config.text_column, option="text_column")
        names, dimension = config.class_names(), pile.features.shape[1]
        if given.shape != (len(names), dimension):
            raise InputError(
                f"text_features: {config.text_features} has the shape {given.shape}; {len(names)} classes and "
                f"{dimension} features of the pile need ({len(names)}, {dimension})"
            )
        rows = dict(zip(names, given.astype(np.float32), strict=True))

        def of_file(classes: Sequence[str]) -> NDArray[np.floating] | str:
            new = [name for name in classes if name not in rows]
            if not new:
                return np.stack([rows[name] for name in classes])
            return (
                f"text_features: {config.text_features} has no row for {', '.join(new)}, so the labels alone are used; "
                "add a row, and the name to classes, to use class names again"
            )

        return of_file
    encoder = pile.encoder
    if encoder is None or not encoder.embeds_names or config.classes is None:
        return None

    def of_network(classes: Sequence[str]) -> NDArray[np.floating]:
        from fsl.features.prompts import PROMPTS
        from runs.own_data.pictures import encode_names

        return encode_names(classes, PROMPTS, encoder, store, progress).numpy()

    return of_network


def _open(session: Session, config: LabelConfig, console: "Console", browse: bool) -> None:
    """Serve the page until Ctrl-C."""
    from runs.labelling.server import LOOPBACK, listen, serve

    opened, page = listen(session.folder, config.host, config.port)
    pile = session.pile
    console.error(f"{len(pile):,} {pile.noun}s, {session.answers.number:,} answers so far: {session.folder}")
    console.error("press Ctrl-C to end the session; its page is")
    console.write(page)  # a result: messages are written without secrets
    if config.host not in LOOPBACK:
        console.error(f"warning: host={config.host} lets other machines that know the address read and answer")
    if browse and has_screen():
        webbrowser.open(page)
    serve(session, opened, page, config.host)
