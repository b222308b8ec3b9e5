"""Resource arguments, and the keys that the launch agent refuses.

The unit tests compare the collection's own check with them, the tests of the group launch wandb itself.
"""

from __future__ import annotations

from typing import Any

REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("kubernetes", {}, []),
    ("kubernetes", {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}, []),
    ("kubernetes", {"spec": {"securityContext": None}}, ["spec.securityContext: "]),
    ("kubernetes", {"spec": {"volumes": [{"hostPath": {"path": "/"}}]}}, ["spec.volumes[0].hostPath: "]),
    ("kubernetes", {"sources": [{"serviceAccountToken": {}}]}, ["sources[0].serviceAccountToken: "]),
    ("kubernetes", {"hostNetwork": True}, ["hostNetwork: "]),
    ("kubernetes", {"hostNetwork": "Yes "}, ["hostNetwork: "]),
    ("kubernetes", {"hostPID": False, "hostIPC": "no", "hostUsers": 0, "shareProcessNamespace": None}, []),
    ("kubernetes", {"serviceAccountName": "admin"}, ["serviceAccountName: "]),
    ("kubernetes", {"serviceAccount": " ", "serviceAccountName": None}, []),
    ("kubernetes", {"serviceAccount": [None, "a"]}, ["serviceAccount: "]),
    ("kubernetes", {"automountServiceAccountToken": 1}, ["automountServiceAccountToken: "]),
    ("kubernetes", {"automountServiceAccountToken": False}, []),
    ("kubernetes", {"ports": [{"hostPort": 80}]}, ["ports[0].hostPort: "]),
    ("kubernetes", {"mountPropagation": "Bidirectional"}, ["mountPropagation: "]),
    ("kubernetes", {"mountPropagation": "HostToContainer"}, []),
    ("kubernetes", {"annotations": {"a/seccomp": "Unconfined"}}, ["annotations.a/seccomp: "]),
    ("kubernetes", {"annotations": {"a/seccomp": "runtime/default", "b": "unconfined"}}, []),
    ("kubernetes", {"hostPID": True, "x": {"hostPath": 1}}, ["hostPID: ", "x.hostPath: "]),
    ("local-container", {"gpus": "all", "shm-size": "8g", "env": ["A=1", 2]}, []),
    ("local-container", {"--SHM_size": "8g", "-e": "A=1"}, []),
    ("local-container", {"privileged": True}, ["privileged: only command, cpu"]),
    ("local-container", {"volume": "/:/host"}, ["volume: only"]),
    ("local-container", {"gpus": True}, ["gpus: it must be a single"]),
    ("local-container", {"cpus": ["1"]}, ["cpus: it must be a single"]),
    ("local-container", {"env": []}, ["env: each value"]),
    ("local-container", {"env": [{"A": 1}]}, ["env: each value"]),
]
