"""XSDC: representations learned by reversing a ridge regression, from known labels, links and bounds on sizes.

The other deep methods, which share one training loop, lie in `clustering.deep`.
"""
