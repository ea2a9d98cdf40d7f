"""Typed configs: groups, overrides, types, and identities of results.

Only YAML files are read here; the stages lie in `runs.stages`.
"""
