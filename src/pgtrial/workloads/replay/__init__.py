"""Replay the log of a server: its sessions and statements, at the times of the original."""
