"""Linear probes: can the forget set still be told from the retain set in the hidden states?"""
