"""Runs in a file, which carries them from one machine to another."""
