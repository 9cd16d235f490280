from .stopping import Limits, RelativeChange, Unjudged  # noqa
