"""Alarms with a contract: minute values in, at most one false alarm in a stated time out; see docs/alarms.md."""
