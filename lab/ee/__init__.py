"""The execution environment of the repository, built on this machine: what AWX would run the playbooks in.

The definition is the product's own, `execution-environment.yml`; the lab gives the base image and says where packages
come from on this machine.
"""

from __future__ import annotations

from lab.ee.image import build, name
from lab.ee.runner import settings

__all__ = ["build", "name", "settings"]
