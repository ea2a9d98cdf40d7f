"""HEIC and HEIF images, as smartphones write them, which Pillow can read if pillow-heif is installed."""

import functools

HEIF = (".heic", ".heif")
HEIF_REMEDY = "reading HEIC and HEIF requires pillow-heif: pip install 'transduce[heif]', or save the file as JPEG"


def is_heif(name: str) -> bool:
    """Whether the name has an extension of these formats."""
    return name.lower().endswith(HEIF)


@functools.cache
def read_heif() -> bool:
    """Enable these formats in Pillow. Returns False if pillow-heif is missing."""
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True
