"""A person's own tables and pictures: read, worked on, and given back as files and pages.

Pages about the papers lie in `runs.report`.
"""
