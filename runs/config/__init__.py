"""Configs: groups, overrides, types, and the identity of what can change a result.

Nothing is computed here, and nothing is read but YAML.
"""
