"""The record of runs as a static site: what the papers print, what ran here, and where each number comes from."""
