"""Discriminative clustering: pseudo-labels from predictions, and models, deep ones too, fitted to them."""
