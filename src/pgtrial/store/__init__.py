"""The only door to disk: SQLite for state, Parquet for samples. Both halves use it; it knows neither."""
