from .stores import NeighborTier  # noqa
