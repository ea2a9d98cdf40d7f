"""Labelling of a user's own pile of pictures or rows on a local page: its items, answers, predictions and server."""
