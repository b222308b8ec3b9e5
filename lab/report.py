"""Show a report of the acceptance role as a person reads it: ``python -m lab.report FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def table(report: dict[str, Any]) -> Table:
    shown = Table(title=f"Kubernetes {report['cluster']['kubernetes_version']} at {report['cluster']['endpoint']}")
    for column in ("host", "system", "driver", "GPUs on PCI", "allocatable", "proven", "in use"):
        shown.add_column(
            column, justify="right" if column in ("GPUs on PCI", "allocatable", "proven", "in use") else "left"
        )
    for name, host in sorted(report["hosts"].items()):
        gpus = host["gpus"]
        counts = (str(gpus[key]) for key in ("pci", "allocatable", "proven", "in_use"))
        shown.add_row(name, str(host["os"]), str(host["driver"] or "-"), *counts)
    return shown


def summary(report: dict[str, Any]) -> str:
    """Return the one line that says how it went."""
    totals = report["totals"]
    hosts = sum(1 for host in report["hosts"].values() if host["gpus"]["pci"])
    kept = ", as an earlier run showed" if report.get("kept") else ""
    used = f", {totals['in_use']} in use by pods" if totals["in_use"] else ""
    return f"{totals['proven']} of {totals['gpus']} GPUs proven on {hosts} hosts{used}{kept}"


def main() -> int:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m lab.report FILE")
    report = json.loads(Path(sys.argv[1]).read_text())
    console = Console()
    console.print(table(report))
    for problem in report["problems"]:
        console.print(f"problem: {problem}", markup=False)
    console.print(summary(report))
    return 1 if report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
