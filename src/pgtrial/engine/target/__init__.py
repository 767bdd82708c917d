"""The server that is tested: made for the experiment, or there before."""
