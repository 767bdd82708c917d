"""The process that lets arms take turns, and what the engine calls to have it done."""
