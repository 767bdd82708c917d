"""Targets: servers made for the experiment, existing servers, or the host itself."""
