"""The papers' tables: what is printed, and the configs that fill each cell.

How cells are filled from the record is in `runs.tables.evidence`.
"""
