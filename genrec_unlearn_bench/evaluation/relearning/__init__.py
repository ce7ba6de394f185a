"""Relearning attacks: how fast does a forgotten concept come back under fine-tuning?"""
