# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a filter raises for input that it cannot use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import DomainError


@contextmanager
def filter_errors(doing: str = "") -> Iterator[None]:
    """Raise AnsibleFilterError for the collection's own errors, and for input of a wrong form if ``doing`` is given."""
    try:
        yield
    except DomainError as error:
        raise AnsibleFilterError(str(error)) from error
    except (KeyError, TypeError, AttributeError) as error:
        if not doing:
            raise
        raise AnsibleFilterError(f"Error while {doing}: bad input ({error!r})") from error
