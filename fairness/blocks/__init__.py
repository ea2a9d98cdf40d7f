"""Fair clustering of a `dask.array` whose rows are blocks on the workers of a Dask cluster.

Between two updates of the prototypes only T and B are sent to the workers, and only the sums of
`fairness.optimiser.compressed` are returned: C + C K numbers plus a few per block. An update also transfers K (D + 1)
numbers. Dask is imported on first use.
"""
