"""Run experiments: preflight, lifecycle of runs, sampler, resume. The only layer with an event loop."""
