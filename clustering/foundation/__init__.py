"""The basis of all packages, independent of clustering: errors, parameters, plug-ins, random streams, progress,
memory, cores.

Methods and data files are elsewhere.
"""
