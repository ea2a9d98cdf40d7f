"""Fair clustering of a `dask.array`, its rows in blocks on the workers of a Dask cluster.

What travels between two updates of the prototypes are T and B one way and the sums of `fairness.optimiser.compressed`
the other: C + C K numbers and a few for each block; at an update K (D + 1) besides. Nothing here imports Dask before it
    is used.
"""
