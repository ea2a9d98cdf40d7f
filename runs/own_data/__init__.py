"""A user's own tables and pictures: input, processing, and output as files and pages.

Pages about the papers lie in `runs.report`.
"""
