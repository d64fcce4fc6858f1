"""The focal weight inside the trainers that people already use: `trl`, `verl`. See docs/trl.md and docs/verl.md.

Each module needs its own trainer installed and nothing else but the core; none is imported here.
"""
