"""Features of pictures: banks on disk, networks that make them, features of other programs.

Weights of networks lie in `fsl.weights`; per-feature transforms are `fsl.transforms`.
"""
