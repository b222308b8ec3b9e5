"""A pod that holds a GPU and counts steps like a training: which steps it lost, and for how long it did not run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from support.cluster import Cluster, gpu_pod
from support.hosts import Host

# Kept over restarts of the pod and of the host, and not compared with the host's state before the first run.
DIRECTORY = "/var/log/gpulab-probe"
# The image has few programs, so the time is the kernel's uptime, which containers of one machine share.
SCRIPT = """
now() { read -r up rest </proc/uptime; }
save() { echo "$step" >"$LOG.saved"; }
step=0
[ -f "$LOG.saved" ] && read -r step <"$LOG.saved"
[ "$SAVE_ON_TERM" = yes ] && trap 'save; exit 0' TERM || trap 'exit 0' TERM
now; echo "$up start $POD $step" >>"$LOG"
while :; do
  step=$((step + 1))
  now; echo "$up step $POD $step" >>"$LOG"
  [ "$SAVE_EVERY" -gt 0 ] && [ $((step % SAVE_EVERY)) -eq 0 ] && save
  sleep 1 & wait $!
done
"""
_LINE = re.compile(r"(\d+\.\d+) (start|step) (\S+) (\d+)")


@dataclass(frozen=True)
class Steps:
    """What a pod did: the last step, starts after the first one, steps that were done again, and the longest pause."""

    last: int
    restarts: int
    lost: int
    longest_gap: float
    pods: tuple[str, ...]

    @classmethod
    def read(cls, text: str, uptime: float | None = None) -> Steps:
        """Return the steps of a pod's file; with an uptime, the longest pause can be the one that lasted until then.

        Raises ValueError for a line that the pod did not write, and if the host was booted, because then the lengths
        of pauses are unknown.
        """
        last = lost = starts = 0
        longest, former, pods = 0.0, 0.0, []
        for line in text.splitlines():
            found = _LINE.fullmatch(line)
            if not found:
                raise ValueError(f"not a step: {line!r}")
            now, kind, pod, number = float(found[1]), found[2], found[3], int(found[4])
            longest = max(longest, _pause(former, now))
            if kind == "start":
                starts += 1
                lost += last - number
            former, last = now, number
            pods.append(pod)
        if uptime is not None:
            longest = max(longest, _pause(former, uptime))
        return cls(last, max(0, starts - 1), lost, round(longest, 2), tuple(dict.fromkeys(pods)))


def _pause(former: float, now: float) -> float:
    if now < former:
        raise ValueError(f"the uptime went back from {former} to {now}: the host was booted")
    return now - former if former else 0.0


def training_pod(name: str, node: str, save_every: int = 0, save_on_term: bool = False) -> dict[str, Any]:
    """Return a pod that counts on one GPU of a node; it saves its step after so many steps, or when it is ended."""
    pod = gpu_pod(name, 1, node)
    (container,) = pod["spec"]["containers"]
    container["command"] = ["/bin/sh", "-c", SCRIPT]
    values = {"LOG": f"/log/{name}", "SAVE_EVERY": str(save_every), "SAVE_ON_TERM": "yes" if save_on_term else "no"}
    container["env"] = [{"name": key, "value": value} for key, value in values.items()]
    container["env"].append({"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}})
    container["volumeMounts"] = [{"name": "log", "mountPath": "/log"}]
    pod["spec"]["volumes"] = [{"name": "log", "hostPath": {"path": DIRECTORY, "type": "DirectoryOrCreate"}}]
    pod["spec"]["terminationGracePeriodSeconds"] = 10
    return pod


class GpuPodProber:
    """Such a pod during a block; its steps are read over SSH, so also without the API."""

    def __init__(
        self,
        cluster: Cluster,
        host: Host,
        name: str,
        *,
        node: str = "",
        save_every: int = 0,
        save_on_term: bool = False,
    ) -> None:
        self.cluster, self.host, self.name = cluster, host, name
        self.pod = training_pod(name, node or host.name, save_every, save_on_term)

    def __enter__(self) -> GpuPodProber:
        self.host.run(f"rm -f {DIRECTORY}/{self.name} {DIRECTORY}/{self.name}.saved")
        self.cluster.apply(self.pod)
        self.cluster.kubectl("wait", f"pod/{self.name}", "--for=condition=Ready", "--timeout=120s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        # A failed test may have no API to ask; its own error is the one to show.
        if error is None:
            self.cluster.delete_pod(self.name)

    def steps(self) -> Steps:
        """Return what the pod did so far; a pod that is gone has a pause that lasts until now."""
        *lines, uptime = self.host.run(f"cat {DIRECTORY}/{self.name} /proc/uptime").splitlines()
        return Steps.read("\n".join(lines), float(uptime.split()[0]))

    def expect_running(self) -> Steps:
        """Return the steps if the pod that counted last runs: not another one, or only its file."""
        steps, pod = self.steps(), self.cluster.get("pod", self.name)
        found = (pod["metadata"]["uid"], pod["status"]["phase"])
        assert found == (steps.pods[-1], "Running"), f"{self.name} is {found}, and {steps.pods[-1]} counted last"
        return steps
