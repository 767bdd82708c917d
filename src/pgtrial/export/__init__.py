"""Result folders as bundles for others, with what should not leave the house taken out."""
