"""Listed benchmarks in small: few pictures a class, each of one colour."""

import io

import numpy as np
from PIL import Image

from fsl.benchmarks.papers import Cub


def few(monkeypatch, kind, each):
    """The benchmark with so many pictures a class."""
    monkeypatch.setattr(kind, "each", each)


def pixels(labels, size):
    """(N, size, size, 3), each picture of one colour: label, number of the picture, 200."""
    images = np.zeros((len(labels), size, size, 3), np.uint8)
    images[..., 0] = (np.asarray(labels) % 256)[:, None, None]
    images[..., 1] = (np.arange(len(labels)) % 256)[:, None, None]
    images[..., 2] = 200
    return images


def png(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def whole(found):
    return found.images[0 : found.images.shape[0]]


def colours(found):
    return whole(found)[:, :, 0, 0]


def write_picture(path, colour):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(np.full((4, 4, 3), np.array(colour) % 256, np.uint8)))


def write_cub(folder):
    names = [name for names in Cub.classes.values() for name in names]
    for name in names:
        for number in (1, 2):
            write_picture(folder / "images" / name / f"{name[4:]}_{number:04d}.jpg", int(name[:3]))
    return names
