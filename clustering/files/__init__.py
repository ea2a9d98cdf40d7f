"""Files read and written safely: arrays, tensors, tables, training states; each takes its place in one step.

Data sets, which say what the files mean, lie in `clustering.datasets`.
"""
