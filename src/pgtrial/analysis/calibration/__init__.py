"""What a calibration measures, and what it promises of an experiment."""
