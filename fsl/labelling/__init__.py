"""Labelling a pile of points: what to label next, how good the predicted labels are, and which labels to doubt."""
