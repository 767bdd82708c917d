"""A load like that of a server in production: from what it has counted, scripts for a copy."""
