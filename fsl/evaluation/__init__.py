"""Strategies on tasks: per-task accuracies, intervals, paired comparisons and audits.

What is kept of them, and where, is the business of `runs`.
"""
