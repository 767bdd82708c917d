"""A model's text about an experiment: from computed facts only, each number in it checked against them, always marked
as a model's. What a model says feeds nothing back.
"""
