"""HEIC and HEIF, as telephones write them, which Pillow reads where pillow-heif is installed."""

import functools

HEIF = (".heic", ".heif")
HEIF_REMEDY = "HEIC and HEIF are read where pillow-heif is installed: pip install 'transduce[heif]', or save it as JPEG"


def is_heif(name: str) -> bool:
    """Whether a file is called like one."""
    return name.lower().endswith(HEIF)


@functools.cache
def read_heif() -> bool:
    """Make Pillow read them. False where it cannot."""
    try:
        import pillow_heif
    except ImportError:
        return False
    pillow_heif.register_heif_opener()
    return True
