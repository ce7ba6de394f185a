"""Forget quality: do a run and the retrained model answer forgotten questions alike?"""
