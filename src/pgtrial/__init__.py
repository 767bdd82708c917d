"""Validate claims about PostgreSQL performance by experiment."""

__version__ = "0.1.0"
__all__ = ["__version__"]
