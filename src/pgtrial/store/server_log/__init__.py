"""The server's log: lines of any format and language to entries, entries to what they tell. Reads no log itself."""
