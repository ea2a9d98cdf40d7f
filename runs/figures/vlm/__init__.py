"""Figures of strategies with class names, which are of no paper."""
