"""The Ray tests belong to installations with the extra "cluster"; elsewhere they do not exist."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("ray") else ["test_ray.py", "test_ray_hosts.py"]
