"""A model's text about an experiment: the model writes placeholders, pgtrial fills in the facts, and the text is always
marked as a model's. A model's output is never used for anything else.
"""
