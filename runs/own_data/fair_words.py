"""Shares and distances in words, for the page about fair clusters."""

SAME = 0.005  # relative differences of distances below this are ignored


def of_hundred(share: float) -> str:
    """Return a share as rows of 100; 0 and 100 only if exact."""
    if 0 < share <= 0.005:
        return "under 1"
    if 0.995 <= share < 1:
        return "over 99"
    return f"{100 * share:.0f}"


def between(shares: tuple[float, float]) -> str:
    """Return a range of shares as rows of 100."""
    low, high = (f"{100 * share:.0f}" for share in shares)
    return low if low == high else f"{low} to {high}"


def farther(ratio: float) -> str:
    """Return a ratio of distances in words, such as "4 % farther"."""
    change = abs(ratio - 1)
    if ratio == float("inf"):
        return "farther"
    if change < SAME:
        return "as far"
    if ratio >= 3:
        return f"{ratio:.1f} times as far"
    return f"{max(1, round(100 * change))} % {'farther' if ratio > 1 else 'nearer'}"


def weight_name(weight: float) -> str:
    """Return a weight as text for the command line, with four digits unless it is an integer."""
    if weight % 1 == 0 and weight < 1e15:
        return f"{weight:.0f}"
    short = float(f"{weight:.4g}")
    return f"{short:.0f}" if 1000 <= short < 1e15 else f"{short:g}"
