"""Safe reading and atomic writing of files: arrays, tensors, tables and training states.

Data sets, which interpret the content, are in `clustering.datasets`.
"""
