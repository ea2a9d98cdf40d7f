"""Piles to label, and a client of the page."""

import errno
import os

import numpy as np

from fsl.extra.smoothed_ridge import SmoothedRidge
from runs.labelling.journal import Given
from runs.labelling.labeller import Labeller
from runs.labelling.pile import Pile
from runs.labelling.session import Session

CLASSES = ("cat", "dog", "eel")


def small_pile(n=60, mark="id", is_folder=False):
    """Rows in three clear groups, of which row i is in group i % 3."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(3, 8)) * 4
    rows = np.arange(n)
    features = (centres[rows % 3] + generator.normal(size=(n, 8))).astype(np.float32)
    return Pile(
        name="pile",
        ids=tuple(f"{mark}-{row}" for row in rows),
        titles=tuple(map(str, rows)),
        features=features,
        is_folder=is_folder,
        pictures=[None] * n,
        columns={"text": [f"<b>row {row}</b>" for row in rows]},
    )


def opened(folder, pile=None, **options):
    """A session, in which nothing is labelled yet."""
    pile = pile or small_pile()
    labeller = Labeller(pile.features, SmoothedRidge())
    return Session(pile, labeller, folder, **{"classes": CLASSES, **options})


def class_of(item):
    return CLASSES[int(item.rpartition("-")[2]) % 3]


def label(session, *items, client="me"):
    answers = [given(item, session.versions[item], "label", class_of(item)) for item in items]
    return session.answer(client, answers)


def given(item, version, action, label=None):
    return Given(id=item, version=version, action=action, label=label)


def label_batches(session, number):
    """Label batches, and the pile anew after each."""
    session.step()
    for _ in range(number):
        label(session, *session.batch)
        session.step()
    return session


def raise_full(handle, data=b"", write=os.write):
    """Write a part, as a disk does that becomes full."""
    write(handle, data[:10])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
