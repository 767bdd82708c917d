"""Makes it happen: preflight, lifecycle of a run, sampler, resume. The only layer with an event loop."""
