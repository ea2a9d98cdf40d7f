"""Strategies of this project's own, which are not from a paper. A reproduction does not need them."""
