"""Store + stats -> findings: observations, effects, verdict. Never touches a server."""
