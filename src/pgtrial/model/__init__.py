"""The nouns of pgtrial: frozen values that need only the standard library."""
