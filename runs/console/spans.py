"""Durations as text."""


def duration(seconds: float) -> str:
    """A duration as text, such as "3 min" and "2 h 10 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
