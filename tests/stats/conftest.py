"""Property tests here follow a fixed seed, as simulations do, and have no deadline: machines are shared."""

from hypothesis import settings

settings.register_profile("reproducible", deadline=None, derandomize=True)
settings.load_profile("reproducible")
