"""Parts shared by several strategies.

The strategies themselves lie in `fsl.strategies`, one per file.
"""
