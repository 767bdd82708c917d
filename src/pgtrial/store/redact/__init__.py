"""Copies of result folders without secrets, names of hosts, or texts of queries; docs/export.md says what is replaced.

What is taken out leaves a name in its place, the same for the same thing in every file: "host1", "query7". So what was
different stays different, and the analysis of the copy finds the same.
"""
