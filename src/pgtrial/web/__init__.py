"""A read-only local web page over result folders: list, live view, reports, comparison of two experiments."""
