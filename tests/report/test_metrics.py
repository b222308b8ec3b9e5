"""Metrics of a report, alerts and the dashboard with a real Prometheus and a real node_exporter."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Callable

import pytest
import report_samples
import yaml
from support.hosts import ROOT
from support.monitoring import Prometheus, program, prometheus, until
from support.programs import run_ansible

RULES = ROOT / "examples" / "monitoring" / "rules.yml"
DASHBOARD = json.loads((ROOT / "examples" / "monitoring" / "dashboard.json").read_text())
# `promtool test rules` starts its clock here.
ZERO = datetime(1970, 1, 1, tzinfo=timezone.utc)
WRITE = """
- name: Write the metrics of reports
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Write the metrics of all reports
      ansible.builtin.copy:
        content: "{{ lookup('ansible.builtin.file', 'reports.json') | from_json
          | map('gpulab.kubernetes.report_metrics') | to_json }}"
        dest: metrics.json
        mode: "0644"
"""
# Metrics as each node's DCGM exporter writes them.
DCGM = """DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="Tesla T4",Hostname="gpu1"} 0
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",modelName="Tesla T4",Hostname="gpu1"} %s
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",modelName="Tesla T4",Hostname="gpu1",err_code="%s"} %s
"""
Report = dict[str, Any]


def at(now: datetime, days: float) -> str:
    return f"{now + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"


def healthy(now: datetime) -> Report:
    report = report_samples.well()
    certificates = report["hosts"]["cp1"]["certificates"]
    for certificate, days in zip(certificates, (364, 3649)):
        certificate["expires"] = at(now, days)
    return {**report, "observed": at(now, -0.1)}


def unhealthy_gpu(now: datetime) -> Report:
    report = healthy(now)
    report["hosts"]["gpu1"]["devices"][3] |= {"healthy": False, "health": ["GPU is lost"]}
    report["actions"] = [{"severity": "error", "host": "gpu1", "what": "GPU 3 is unhealthy: GPU is lost"}]
    return report


def certificate(now: datetime, days: float) -> Report:
    report = healthy(now)
    report["hosts"]["cp1"]["certificates"][0]["expires"] = at(now, days)
    return report


def drift(now: datetime) -> Report:
    report = healthy(now)
    report["hosts"]["gpu2"]["versions"][0] |= {"found": "1.35.8-1.1", "drift": True}
    return report


def unreachable(now: datetime) -> Report:
    report = healthy(now)
    report["hosts"]["gpu1"]["reachable"] = False
    report["actions"] = [{"severity": "error", "host": "gpu1", "what": "no route to host"}]
    return report


# Situations, and how often each alert fires in them.
SITUATIONS: dict[str, tuple[Callable[[datetime], Report] | None, dict[tuple[str, str], int]]] = {
    "healthy": (healthy, {}),
    "unhealthy": (unhealthy_gpu, {("GpulabGpuUnhealthy", "critical"): 1, ("GpulabErrors", "critical"): 1}),
    "unreachable": (unreachable, {("GpulabErrors", "critical"): 1}),
    "expires-in-10-days": (lambda now: certificate(now, 10), {("GpulabCertificateExpires", "warning"): 1}),
    "has-expired": (lambda now: certificate(now, -1), {("GpulabCertificateExpires", "warning"): 1}),
    "expires-in-31-days": (lambda now: certificate(now, 31), {}),
    "drift": (drift, {("GpulabVersionDrift", "warning"): 1}),
    "3-days-old": (lambda now: {**healthy(now), "observed": at(now, -3)}, {("GpulabReportOld", "warning"): 1}),
    "1-day-old": (lambda now: {**healthy(now), "observed": at(now, -1)}, {}),
    "no-metrics": (None, {("GpulabReportOld", "warning"): 1}),
}


def exposed(folder: Path, reports: dict[str, Report]) -> dict[str, str]:
    """Return each report's metrics, converted by the filter in a playbook."""
    (folder / "reports.json").write_text(json.dumps(list(reports.values())))
    (folder / "write.yml").write_text(WRITE)
    status, said = run_ansible(folder, "write.yml")
    assert status == 0, said
    return dict(zip(reports, json.loads((folder / "metrics.json").read_text())))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Metrics of each situation at second 0, and of reports with the current time."""
    now = datetime.now(timezone.utc)
    reports = {name: make(ZERO) for name, (make, _alerts) in SITUATIONS.items() if make}
    ill = {**report_samples.ill(), "observed": at(now, -0.1)}
    return exposed(
        tmp_path_factory.mktemp("metrics"),
        {**reports, "now-healthy": healthy(now), "now-ill": ill, "now-hostile": report_samples.hostile()},
    )


def promtool(*arguments: str | Path, stdin: str | None = None) -> str:
    command = [program("promtool"), *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["now-healthy", "now-ill", "now-hostile"])
def test_promtool_accepts_the_metrics(texts: dict[str, str], name: str) -> None:
    assert promtool("check", "metrics", stdin=texts[name]) == ""


def test_each_situation_fires_exactly_its_alerts(texts: dict[str, str], tmp_path: Path) -> None:
    tests = []
    for name, (_make, alerts) in SITUATIONS.items():
        lines = texts.get(name, "").splitlines()
        samples = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        labels = [f'{{alertname="{alert}", severity="{severity}"}}' for alert, severity in alerts]
        firing = {
            "expr": 'count by (alertname, severity) (ALERTS{alertstate="firing"})',
            "eval_time": "10m",
            "exp_samples": [{"labels": each, "value": value} for each, value in zip(labels, alerts.values())],
        }
        series = [{"series": sample, "values": f"{value}+0x20"} for sample, _space, value in samples]
        tests.append({"name": name, "interval": "1m", "input_series": series, "promql_expr_test": [firing]})
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    promtool("check", "rules", RULES)
    promtool("test", "rules", tmp_path / "tests.yml")


@pytest.mark.parametrize(
    ("temperature", "xid", "minutes", "alert"),
    [
        (33, 0, 15, ""),
        (33, 13, 15, ""),
        (33, 79, 1, "GpulabGpuXid"),
        (90, 0, 9, ""),
        (90, 0, 11, "GpulabGpuHot"),
    ],
)
def test_the_metrics_of_a_gpu_fire_its_alerts(
    tmp_path: Path, temperature: int, xid: int, minutes: int, alert: str
) -> None:
    samples = [line.rpartition(" ") for line in (DCGM % (temperature, xid, xid)).splitlines()]
    firing = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing", alertname=~"GpulabGpu(Xid|Hot)"})',
        "eval_time": f"{minutes}m",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else [],
    }
    series = [{"series": sample, "values": f"{value}+0x20"} for sample, _space, value in samples]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [firing]}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [test]}))
    promtool("test", "rules", tmp_path / "tests.yml")


@pytest.fixture(scope="module")
def live(texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, Path]]:
    folder = tmp_path_factory.mktemp("textfile")
    expose(folder / "gpulab.prom", texts["now-ill"])
    expose(folder / "dcgm.prom", DCGM % (33, 0, 0))
    with prometheus(folder, RULES, tmp_path_factory.mktemp("prometheus")) as found:
        yield found, folder / "gpulab.prom"


def test_each_query_of_the_dashboard_has_a_result(live: tuple[Prometheus, Path]) -> None:
    server, _file = live
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$cluster", ".*")
            assert until(lambda: server.query(expression), bool), panel["title"]  # noqa: B023
    [variable] = [each for each in DASHBOARD["templating"]["list"] if each["name"] == "cluster"]
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
    assert found and [each["metric"][found[2]] for each in server.query(found[1])] == ["research"]


def test_the_dashboards_panels_fill_its_rows() -> None:
    taken: dict[int, list[int]] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        for row in range(place["y"], place["y"] + place["h"]):
            taken.setdefault(row, []).extend(range(place["x"], place["x"] + place["w"]))
    assert all(sorted(columns) == list(range(24)) for columns in taken.values())
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_an_alert_fires_until_the_next_report_is_healthy(live: tuple[Prometheus, Path], texts: dict[str, str]) -> None:
    server, file = live

    def firing() -> dict[str, dict[str, str]]:
        return {each["labels"]["alertname"]: each["annotations"] for each in server.alerts()}

    found = until(firing, lambda found: len(found) == 4)
    assert found["GpulabGpuUnhealthy"]["summary"] == "GPU 3 of gpu1 is unhealthy"
    assert found["GpulabErrors"]["summary"] == "The report of research has 4 errors"
    assert "of cp1 expires" in found["GpulabCertificateExpires"]["summary"]
    assert found["GpulabVersionDrift"]["summary"] == "gpu3 differs from its pinned state in 1 components"
    expose(file, texts["now-healthy"])
    until(firing, lambda found: not found)
    file.unlink()
    gone = until(firing, bool)
    assert gone["GpulabReportOld"]["summary"] == "There is no report of the cluster from the last 2 days"


def test_node_exporter_accepts_any_node_name(live: tuple[Prometheus, Path], texts: dict[str, str]) -> None:
    server, file = live
    expose(file, texts["now-hostile"])
    said = server.exposed()
    assert "node_textfile_scrape_error 0\n" in said
    assert names(said) == names(texts["now-hostile"]) != set()


def expose(file: Path, text: str) -> None:
    """Write the file atomically, like the role, because node_exporter may read it at any time."""
    file.with_suffix(".new").write_text(text)
    file.with_suffix(".new").replace(file)


def names(exposed: str) -> set[frozenset[tuple[str, str]]]:
    """Return the labels of each sample, which node_exporter sorts."""
    lines = [line for line in exposed.splitlines() if line.startswith("gpulab_")]
    return {frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', line)) for line in lines}
