"""Comparisons as a page and as text: what report/sections is to one experiment, for several of them."""
