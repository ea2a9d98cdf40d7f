"""Figures drawn from finished runs."""
