"""The type checker of the tests: beartype, with whole numbers accepted where the annotation says float, as in PEP 484."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
