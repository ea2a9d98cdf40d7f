"""Planning of the missing work, estimates of its duration, and its execution in several processes.

`runs.stages` determines what is computed.
"""
