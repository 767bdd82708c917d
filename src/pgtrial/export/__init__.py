"""Results for other programs and other people: tables, formats, notebooks, and bundles with private data redacted."""
