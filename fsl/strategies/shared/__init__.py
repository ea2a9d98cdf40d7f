"""What several strategies are made of.

No strategy lies here: each is one file in `fsl.strategies`.
"""
