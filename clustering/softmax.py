"""Softmax over the classes of (B, K, N) logits. Over a dimension that is not the last, as here, torch's own takes twice
as long as its few steps written out."""

from typing import NamedTuple

from torch import Tensor


class Assignments(NamedTuple):
    """Rows of a softmax, (B, K, N).

    Attributes:
        L: log S.
        S: sums to one over the classes.
    """

    L: Tensor
    S: Tensor


def softmax(logits: Tensor) -> Tensor:
    """(B, K, N) softmax over the classes."""
    powers = (logits - logits.amax(dim=1, keepdim=True)).exp_()
    return powers.div_(powers.sum(dim=1, keepdim=True))


def gibbs(energies: Tensor, temperature: Tensor | float = 1.0) -> Assignments:
    """softmax(-energies / temperature) over the classes, with its logarithm as computed, not of a rounded softmax."""
    L = energies.amin(dim=1, keepdim=True) - energies
    if isinstance(temperature, Tensor) or temperature != 1:
        L /= temperature
    S = L.exp()
    total = S.sum(dim=1, keepdim=True)
    return Assignments(L.sub_(total.log()), S.div_(total))
