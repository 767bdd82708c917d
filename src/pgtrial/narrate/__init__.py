"""A model's text about an experiment: the model writes placeholders, pgtrial puts in the facts, and the text is always
marked as a model's. What a model says feeds nothing back.
"""
