"""What would run, how long it takes, and in which processes it runs.

What is computed is decided by `runs.stages`.
"""
