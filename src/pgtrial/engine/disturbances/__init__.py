"""What would disturb a measurement on a host."""
