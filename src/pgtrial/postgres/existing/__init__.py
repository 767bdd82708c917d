"""An existing server: reached as the user specifies, changed through SQL only, and left as it was found."""
