"""The nouns of pgtrial: frozen values without behaviour that needs anything but the standard library."""
