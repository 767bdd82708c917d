"""Findings to Vega-Lite specifications, one chart per file: pure functions that return plain dicts.

Chrome (text, axes, bands) is drawn in ``currentColor``, so that one specification serves light, dark and paper.
"""
