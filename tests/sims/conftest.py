"""The Ray test belongs to installations with the extra "cluster"; elsewhere it does not exist."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("ray") else ["test_ray.py"]
