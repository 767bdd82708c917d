"""The command: text, Markdown, JSON, a model through a stand-in, the pack for use by hand, and every error."""
