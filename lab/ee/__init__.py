"""The execution environment of the repository, built on this machine, in which AWX would run the playbooks.

The definition is the product's own, `execution-environment.yml`; the lab adds the base image and this machine's package
sources.
"""

from __future__ import annotations

from lab.ee.image import build, name
from lab.ee.runner import settings

__all__ = ["build", "name", "settings"]
