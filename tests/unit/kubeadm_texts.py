# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the versions of kubeadm print, in the forms of their sources."""

from __future__ import annotations

import json
from typing import Any

TOKEN = "8l4jks.lxh6hgeuqnq29tac"
SECRET = TOKEN.partition(".")[2]
H1 = "sha256:" + "1a" * 32
H2 = "sha256:" + "2b" * 32
KEY = "3c" * 32
NODES = "system:bootstrappers:kubeadm:default-node-token"

PINNED = f"--discovery-token-ca-cert-hash {H1}"
KLOG = "W0407 12:00:00.000000      99 configset.go:202] WARNING: cannot validate component configs for API groups"
GATES = "I0914 11:22:33.123456   1234 feature_gate.go:230] feature gates: &{map[]}"

INIT = f"""
Your Kubernetes control-plane has initialized successfully!

You can now join any number of control-plane nodes running the following command on each as root:

  kubeadm join api.example.org:6443 --token {TOKEN} \\
\t{PINNED} \\
\t--control-plane --certificate-key {KEY}

Please note that the certificate-key gives access to cluster sensitive data, keep it secret!
As a safeguard, uploaded-certs will be deleted in two hours; If necessary, you can use
"kubeadm init phase upload-certs --upload-certs" to reload certs afterward.

Then you can join any number of worker nodes by running the following on each as root:

kubeadm join api.example.org:6443 --token {TOKEN} \\
\t{PINNED}
"""
# 1.14 and 1.15 told the worker's command under another flag, and without keys both stand there.
INIT_OLD = f"""
You can now join any number of control-plane nodes by copying certificate authorities
and service account keys on each node and then running the following as root:

  kubeadm join 10.0.0.1:6443 --token {TOKEN} \\
    {PINNED} \\
    --experimental-control-plane \t

Then you can join any number of worker nodes by running the following on each as root:

kubeadm join 10.0.0.1:6443 --token {TOKEN} \\
    {PINNED} \n"""
INIT_1_9 = f"""
Your Kubernetes master has initialized successfully!

You can now join any number of machines by running the following on each node
as root:

  kubeadm join --token {TOKEN} 10.0.0.1:6443 {PINNED}

"""

# All of them say the same: endpoint 10.0.0.1:6443, TOKEN, H1.
JOIN_FORMS = {
    "1.9": f"kubeadm join --token {TOKEN} 10.0.0.1:6443 {PINNED}\n",
    "1.9, init": INIT_1_9,
    "1.10": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}\n",
    "1.12": f"{GATES}\nkubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}\n",
    "1.12 on one line": f"{GATES} kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}\n",
    "1.14 rc": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\n    {PINNED} \n",
    "1.14": f"kubeadm join 10.0.0.1:6443 --token {TOKEN}     {PINNED} \n",
    "1.15, init": INIT_OLD,
    "1.18": f"{KLOG} [kubelet.config.k8s.io]\nkubeadm join 10.0.0.1:6443 --token {TOKEN}     {PINNED} \n",
    "tabs": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \t{PINNED} \n",
    "tabs alone": f"\tkubeadm\tjoin\t10.0.0.1:6443\t--token\t{TOKEN}\t--discovery-token-ca-cert-hash\t{H1}\t\n",
    "1.36": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED} \n",
    "continued at every word": f"kubeadm join \\\n10.0.0.1:6443 \\\n--token \\\n{TOKEN} \\  \n {PINNED}",
    "windows": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\r\n {PINNED}\r\n",
    "terminal": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\r\r\n\t{PINNED}\r\r\n",
    "colours": f"\x1b[1m\x1b[32mkubeadm join 10.0.0.1:6443 --token \x1b[33m{TOKEN}\x1b[0m {PINNED}\x1b[0m\x1b[K\n",
    "title of a window": f"\x1b]0;root@cp1: ~\x07kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}",
    "byte order mark": f"\ufeffkubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}",
    "no-break spaces": f"kubeadm\xa0join\xa010.0.0.1:6443 --token\xa0{TOKEN} {PINNED}",
    "sudo": f"$ sudo -E /usr/bin/kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}",
    "prompt": f"root@cp1:~# kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}",
    "equals": f"kubeadm join 10.0.0.1:6443 --token={TOKEN} --discovery-token-ca-cert-hash={H1} --v=5",
    "quoted": f"""'kubeadm join 10.0.0.1:6443 --token="{TOKEN}" {PINNED} ',""",
    "other flags": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED} "
    "--cri-socket unix:///run/containerd/containerd.sock --ignore-preflight-errors all",
    "flags in front": f"kubeadm join --skip-preflight-checks --v 5 --token {TOKEN} {PINNED} 10.0.0.1:6443",
    "switch that is not known": f"kubeadm join 10.0.0.1:6443 --new-switch --token {TOKEN} {PINNED}",
    "discovery token": f"kubeadm join 10.0.0.1:6443 --discovery-token {TOKEN} {PINNED}",
    "twice the same": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}\n" * 2,
    "two on a line": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}; "
    f"kubeadm join --token {TOKEN} {PINNED} 10.0.0.1:6443",
    "help in front": f'See "kubeadm join --help".\nkubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}',
    "upper case hash": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash sha256:{'1A' * 32}",
    "not a control plane": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED} --control-plane=false",
}


def table(*rows: str) -> str:
    """As Go's tabwriter lays it out, of rows whose cells stand between bars; what ends in a bar is filled up."""
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    widths = [max([7, *(len(row[column]) for row in cells if column < len(row) - 1)]) + 3 for column in range(9)]
    lines = ["".join(cell.ljust(width) for cell, width in zip(row[:-1], widths)) + row[-1] for row in cells]
    return "".join(f"{line}\n" for line in lines)


def token_json(token: str = TOKEN, **changes: Any) -> str:
    """One object of C(kubeadm token list -o json); None leaves a field out."""
    data: dict[str, Any] = {
        "kind": "BootstrapToken",
        "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
        "token": token,
        "expires": "2026-11-21T21:00:00Z",
        "usages": ["authentication", "signing"],
        "groups": [NODES],
        **changes,
    }
    return json.dumps({key: value for key, value in data.items() if value is not None}, indent=4) + "\n"


TOKEN_TABLE = table(
    "TOKEN|TTL|EXPIRES|USAGES|DESCRIPTION|EXTRA GROUPS",
    f"{TOKEN}|23h|2026-11-21T21:00:00Z|authentication,signing|made  by  hand|{NODES}",
    f"abcdef.0123456789abcdef|<forever>|<never>|authentication,signing|<none>|{NODES},system:bootstrappers:x",
    "zzzzzz.z1z2z3z4z5z6z7z8|<invalid>|2026-11-20T22:00:00+02:00|<none>|Proxy for the kubeadm-certs secret|<none>",
)
# The first versions told no groups.
TOKEN_TABLE_OLD = table(
    "TOKEN|TTL|EXPIRES|USAGES|DESCRIPTION", f"{TOKEN}|23h|2026-11-21T21:00:00Z|authentication,signing|<none>"
)


def certificate(name: str, ca: str | None = "ca", **changes: Any) -> dict[str, Any]:
    data = {
        "name": name,
        "expirationDate": "2027-11-20T09:30:15Z",
        "residualTime": 31535999,
        "externallyManaged": False,
        **({"caName": ca} if ca else {}),
        "missing": False,
    }
    return {**data, **changes}


MISSING = {"expirationDate": None, "residualTime": 0, "missing": True}


def certs_json(**changes: Any) -> str:
    data: dict[str, Any] = {
        "kind": "CertificateExpirationInfo",
        "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
        "certificates": [
            certificate("admin.conf"),
            certificate("apiserver", residualTime=-1, expirationDate="2026-11-20T09:30:14Z"),
            certificate("apiserver-etcd-client", "etcd-ca", externallyManaged=True),
            certificate("super-admin.conf", None, **MISSING),
        ],
        "certificateAuthorities": [
            certificate("ca", None, residualTime=315359999, expirationDate="2036-11-17T09:30:15Z"),
            certificate("etcd-ca", None, externallyManaged=True),
            certificate("front-proxy-ca", None, **MISSING),
        ],
        **changes,
    }
    return json.dumps(data, indent=4) + "\n"


CERTS_HEAD = """\
[check-expiration] Reading configuration from the cluster...
[check-expiration] FYI: You can look at this config file with 'kubectl -n kube-system get cm kubeadm-config -o yaml'
"""
CERTS_AUTHORITIES = table(
    "CERTIFICATE AUTHORITY|EXPIRES|RESIDUAL TIME|EXTERNALLY MANAGED",
    "ca|Nov 17, 2036 09:30 UTC|9y|no      ",
    "etcd-ca|Nov 20, 2027 09:30 UTC|364d|yes     ",
    "!MISSING! front-proxy-ca|||",
)
CERTS_COLUMNS = "CERTIFICATE|EXPIRES|RESIDUAL TIME|CERTIFICATE AUTHORITY|EXTERNALLY MANAGED"
CERTS_TABLE = "\n".join(
    [
        CERTS_HEAD,
        table(
            CERTS_COLUMNS,
            "admin.conf|Nov 20, 2027 09:30 UTC|364d|ca|no",
            "apiserver|Nov 20, 2026 09:30 UTC|<invalid>|ca|no",
            "apiserver-etcd-client|Nov 20, 2027 09:30 UTC|364d|etcd-ca|yes",
            "apiserver-kubelet-client|Nov 21, 2026 08:30 UTC|23h|ca|no",
            "!MISSING! super-admin.conf||||",
        ),
        CERTS_AUTHORITIES,
    ]
)
# 1.17 to 1.19 did not tell the CA of the kubeconfigs.
CERTS_TABLE_1_17 = "\n".join(
    [
        'Command "check-expiration" is deprecated, please use the same command under "kubeadm certs"',
        f"{CERTS_HEAD}W0902 02:36:41.997281    3141 defaults.go:186] The recommended clusterDNS is: [10.0.0.10]",
        "",
        table(
            CERTS_COLUMNS, "admin.conf|Nov 20, 2027 09:30 UTC|364d||no", "apiserver|Nov 20, 2027 09:30 UTC|364d|ca|no"
        ),
        CERTS_AUTHORITIES,
    ]
)
CERTS_TABLE_1_15 = table(
    "CERTIFICATE|EXPIRES|RESIDUAL TIME|EXTERNALLY MANAGED",
    "admin.conf|Nov 20, 2027 09:30 UTC|364d|false",
    "apiserver|Nov 20, 2027 09:30 UTC|364d|true",
)


INFO = (
    'Major:"1", Minor:"{minor}", {more}GitVersion:"{version}", GitCommit:"0123456789abcdef0123456789abcdef01234567", '
    'GitTreeState:"clean", BuildDate:"2026-05-12T09:53:04Z", GoVersion:"go1.25.9", Platform:"linux/amd64"'
)
EMULATION = 'EmulationMajor:"", EmulationMinor:"", MinCompatibilityMajor:"", MinCompatibilityMinor:"", '


def version_plain(version: str = "v1.36.4", minor: str = "36", more: str = EMULATION) -> str:
    return "kubeadm version: &version.Info{" + INFO.format(minor=minor, more=more, version=version) + "}\n"


def version_json(version: str = "v1.36.4") -> str:
    info = {"major": "1", "minor": "36", "gitVersion": version, "platform": "linux/amd64"}
    return json.dumps({"clientVersion": info}, indent=2) + "\n"


VERSION_YAML = """\
clientVersion:
  buildDate: "2026-05-12T09:53:04Z"
  compiler: gc
  gitVersion: v1.36.4
  major: "1"
  minor: "36"
  platform: linux/amd64

"""

PLAN_HEAD = """\
[preflight] Running pre-flight checks.
[upgrade/config] Reading configuration from the cluster...
[upgrade] Fetching available versions to upgrade to
[upgrade/versions] Cluster version: 1.36.1
[upgrade/versions] kubeadm version: v1.36.4
I0828 16:50:07.313959   11042 version.go:260] remote version is much newer: v1.37.0; falling back to: stable-1.36
[upgrade/versions] Target version: v1.36.4
[upgrade/versions] Latest version in the v1.36 series: v1.36.4

"""
PLAN = f"""{PLAN_HEAD}\
Components that must be upgraded manually after you have upgraded the control plane with 'kubeadm upgrade apply':
COMPONENT   NODE      CURRENT   TARGET
kubelet     cp1       v1.36.1   v1.36.4
kubelet     worker1   v1.36.0   v1.36.4

Upgrade to the latest version in the v1.36 series:

COMPONENT                 NODE      CURRENT   TARGET
kube-apiserver            cp1       v1.36.1   v1.36.4
kube-controller-manager   cp1       v1.36.1   v1.36.4
kube-scheduler            cp1       v1.36.1   v1.36.4
kube-proxy                          1.36.1    v1.36.4
CoreDNS                             v1.12.1   v1.12.1
etcd                      cp1       3.6.4-0   3.6.11-0

You can now apply the upgrade by executing the following command:

\tkubeadm upgrade apply v1.36.4

_____________________________________________________________________


The table below shows the current state of component configs as understood by this version of kubeadm.
Configs that have a "yes" mark in the "MANUAL UPGRADE REQUIRED" column require manual config upgrade or
resetting to kubeadm defaults before a successful upgrade can be performed. The version to manually
upgrade to is denoted in the "PREFERRED VERSION" column.

API GROUP                 CURRENT VERSION   PREFERRED VERSION   MANUAL UPGRADE REQUIRED
kubeproxy.config.k8s.io   v1alpha1          v1alpha1            no
kubelet.config.k8s.io     -                 v1beta1             yes
_____________________________________________________________________

"""
PLAN_1_9 = """\
[upgrade/versions] Cluster version: v1.8.1
[upgrade/versions] kubeadm version: v1.8.2
[upgrade/versions] Latest stable version: v1.9.0
[upgrade/versions] Latest version in the v1.8 series: v1.8.6

Components that must be upgraded manually after you've upgraded the control plane with 'kubeadm upgrade apply':
COMPONENT   CURRENT      AVAILABLE
Kubelet     1 x v1.8.0   v1.8.6
            2 x v1.8.1   v1.8.6

Upgrade to the latest version in the v1.8 series:

COMPONENT            CURRENT   AVAILABLE
API Server           v1.8.1    v1.8.6
Controller Manager   v1.8.1    v1.8.6
Scheduler            v1.8.1    v1.8.6
Kube Proxy           v1.8.1    v1.8.6
Kube DNS             1.14.4    1.14.5

You can now apply the upgrade by executing the following command:

\tkubeadm upgrade apply v1.8.6

Note: Before you can perform this upgrade, you have to update kubeadm to v1.8.6.

_____________________________________________________________________

Upgrade to the latest experimental version:

COMPONENT            CURRENT   AVAILABLE
API Server           v1.8.1    v1.9.0-beta.1
Controller Manager   v1.8.1    v1.9.0-beta.1
Scheduler            v1.8.1    v1.9.0-beta.1
Kube Proxy           v1.8.1    v1.9.0-beta.1
CoreDNS                        1.0.1
Kube DNS             1.14.4
Etcd                 3.0.17    3.1.10

You can now apply the upgrade by executing the following command:

\tkubeadm upgrade apply v1.9.0-beta.1 --allow-experimental-upgrades

_____________________________________________________________________

"""
UP_TO_DATE_1_9 = """\
[upgrade/versions] Cluster version: v1.9.3
[upgrade/versions] kubeadm version: v1.9.3

Awesome, you're up-to-date! Enjoy!
"""


def _part(name: str, current: str, target: str = "v1.36.4", **more: str) -> dict[str, str]:
    return {"name": name, "currentVersion": current, "newVersion": target, **more}


CONFIGS = [
    {
        "group": "kubelet.config.k8s.io",
        "currentVersion": "",
        "preferredVersion": "v1beta1",
        "manualUpgradeRequired": True,
    }
]
PLAN_V1ALPHA3 = {
    "kind": "UpgradePlan",
    "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
    "availableUpgrades": [
        {
            "description": "version in the v1.36 series",
            "components": [
                _part("kubelet", "v1.36.1", nodeName="cp1"),
                _part("kube-apiserver", "v1.36.1", nodeName="cp1"),
                _part("CoreDNS", "v1.12.1", "v1.12.1"),
            ],
        }
    ],
    "configVersions": CONFIGS,
}
PLAN_V1ALPHA2 = {
    "kind": "UpgradePlan",
    "apiVersion": "output.kubeadm.k8s.io/v1alpha2",
    "components": [_part("kubelet", "2 x v1.36.1"), _part("kube-apiserver", "v1.36.1")],
    "configVersions": CONFIGS,
}
PLAN_YAML = """\
apiVersion: output.kubeadm.k8s.io/v1alpha3
availableUpgrades:
- components:
  - currentVersion: v1.36.1
    name: kubelet
    newVersion: v1.36.4
    nodeName: cp1
  - currentVersion: v1.36.1
    name: kube-apiserver
    newVersion: v1.36.4
    nodeName: cp1
  - currentVersion: v1.12.1
    name: CoreDNS
    newVersion: v1.12.1
  description: version in the v1.36 series
configVersions:
- currentVersion: ""
  group: kubelet.config.k8s.io
  manualUpgradeRequired: true
  preferredVersion: v1beta1
kind: UpgradePlan
"""
