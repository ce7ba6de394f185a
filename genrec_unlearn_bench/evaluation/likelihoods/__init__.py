"""Likelihoods of what was and was not trained on, read once for membership inference and forget quality."""
