"""Membership inference: can it still be told which interactions a model was trained on?"""
