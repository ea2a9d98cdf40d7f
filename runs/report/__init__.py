"""The record of runs as a static site: the papers' results, the computed results, and the origin of each number."""
