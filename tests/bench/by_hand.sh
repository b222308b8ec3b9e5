#!/usr/bin/env bash
# Build and verify the same cluster by hand: the plain commands, on all hosts in parallel, each as early as possible.
# Usage: by_hand.sh DIRECTORY (bench.py has written addresses, versions and manifests into it).
set -euo pipefail
work=$1
read -r control_plane <"$work/control_plane"
mapfile -t hosts < <(cut -d' ' -f1 "$work/hosts")
mapfile -t gpu_hosts < <(awk '$2 > 0 { print $1 }' "$work/hosts")

# Usage: on HOST. Runs standard input there as root, after the host's settings.
on() {
    local ssh
    mapfile -t ssh <"$work/ssh-$1"
    cat "$work/settings-$1" - | "${ssh[@]}" 'sudo -n bash -euo pipefail -s'
}
kubectl() {
    local ssh
    mapfile -t ssh <"$work/ssh-$control_plane"
    "${ssh[@]}" "sudo -n kubectl --kubeconfig /etc/kubernetes/admin.conf ${*@Q}"
}
all() { # all FUNCTION HOST...: in parallel, and fail if one does
    local function=$1 pids=() pid
    shift
    for host in "$@"; do "$function" "$host" & pids+=($!); done
    for pid in "${pids[@]}"; do wait "$pid"; done
}

prepare() {
    on "$1" <<'PREPARE'
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
fetch() { /usr/lib/apt/apt-helper -qq download-file "$1" "$2"; }

printf 'overlay\nbr_netfilter\n' >/etc/modules-load.d/kubernetes.conf
modprobe overlay
modprobe br_netfilter
printf '%s\n' net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1 >/etc/sysctl.d/95-kubernetes.conf
sysctl -q -p /etc/sysctl.d/95-kubernetes.conf
swapoff -a
sed -i '/\sswap\s/d' /etc/fstab

mkdir -p /etc/apt/keyrings /etc/containerd/conf.d /etc/containerd/certs.d
fetch "$docker_url/gpg" /etc/apt/keyrings/docker.asc
fetch "${kubernetes_url}Release.key" /etc/apt/keyrings/kubernetes.asc
echo "deb [signed-by=/etc/apt/keyrings/docker.asc] $docker_url $codename stable" >/etc/apt/sources.list.d/docker.list
echo "deb [signed-by=/etc/apt/keyrings/kubernetes.asc] $kubernetes_url /" >/etc/apt/sources.list.d/kubernetes.list
packages="$containerd_package $kubernetes_packages"
if [ "$gpus" -gt 0 ]; then
    fetch "$toolkit_url/gpgkey" /etc/apt/keyrings/nvidia-toolkit.asc
    fetch "$cuda_url$cuda_key" /etc/apt/keyrings/cuda.asc
    echo "deb [signed-by=/etc/apt/keyrings/nvidia-toolkit.asc] $toolkit_url/stable/deb/amd64/ /" >/etc/apt/sources.list.d/nvidia-toolkit.list
    echo "deb [signed-by=/etc/apt/keyrings/cuda.asc] $cuda_url /" >/etc/apt/sources.list.d/cuda.list
    printf '%s\n' 'Package: *nvidia* cuda-drivers* libcuda1' "Pin: version $driver_version-*" 'Pin-Priority: 1001' >/etc/apt/preferences.d/nvidia
    for package in nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1; do
        packages="$packages $package=$toolkit_version"
    done
    packages="$packages $driver_package"
    cat >/etc/containerd/conf.d/50-nvidia.toml <<TOML
version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'nvidia'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
BinaryName = '/usr/bin/nvidia-container-runtime'
SystemdCgroup = true
TOML
fi
cat >/etc/containerd/config.toml <<TOML
version = 3
imports = ['/etc/containerd/conf.d/*.toml']
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '$pause'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d'
[plugins.'io.containerd.cri.v1.runtime']
$cri_settings
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = true
TOML
while read -r registry endpoint; do
    [ -n "$registry" ] || continue
    mkdir -p "/etc/containerd/certs.d/$registry"
    printf '[host."%s"]\ncapabilities = ["pull", "resolve"]\noverride_path = true\n' "$endpoint" >"/etc/containerd/certs.d/$registry/hosts.toml"
done <<<"$mirrors"
printf 'runtime-endpoint: unix:///var/run/containerd/containerd.sock\n' >/etc/crictl.yaml

apt-get -qq update
# shellcheck disable=SC2086
apt-get -qq install -y --no-install-recommends -o Dpkg::Options::=--force-confold $packages >/dev/null
apt-mark hold $(for package in $packages; do echo "${package%%=*}"; done) >/dev/null
if [ "$gpus" -gt 0 ]; then
    modprobe nvidia
    modprobe nvidia_uvm
    modprobe nvidia_modeset
    nvidia-ctk config --in-place --set nvidia-container-runtime.mode=cdi \
        --set accept-nvidia-visible-devices-envvar-when-unprivileged=false \
        --set accept-nvidia-visible-devices-as-volume-mounts=false
    # The service was started before the driver was loaded, and has reached its start limit.
    systemctl reset-failed nvidia-cdi-refresh.service
    systemctl start nvidia-cdi-refresh.service
    nvidia-smi -L
fi
systemctl restart containerd
systemctl enable -q containerd kubelet
PREPARE
}

make_control_plane() {
    prepare "$1"
    on "$1" <<'INIT'
(umask 077 && printf '%s\n' "$kubeadm_config" >/root/kubeadm.yaml)
kubeadm init --config /root/kubeadm.yaml
kubeadm token create --print-join-command >/root/join
INIT
}

join() {
    { echo "join='$(on "$control_plane" <<<'cat /root/join')'" && cat <<'JOIN'; } | on "$1"
$join --node-name "$name" --ignore-preflight-errors "$ignored"
JOIN
}

gpu_pods() {
    for host in "${gpu_hosts[@]}"; do
        for number in $(seq "$(awk -v h="$host" '$1 == h { print $2 }' "$work/hosts")"); do
            cat <<POD
---
apiVersion: v1
kind: Pod
metadata: {name: gpu-$host-$number, labels: {proof: gpu}}
spec:
  nodeSelector: {kubernetes.io/hostname: $host}
  restartPolicy: Never
  initContainers:
    - {name: sample, image: "$image", resources: {limits: {nvidia.com/gpu: 1}}}
  containers:
    - name: uuid
      image: "$image"
      command: [/bin/sh, -c, "nvidia-smi --query-gpu=uuid --format=csv,noheader; exec sleep infinity"]
      resources: {limits: {nvidia.com/gpu: 1}}
POD
        done
    done
    cat <<POD
---
apiVersion: v1
kind: Pod
metadata: {name: greedy, labels: {proof: greedy}}
spec:
  nodeSelector: {kubernetes.io/hostname: ${gpu_hosts[0]}}
  containers:
    - name: main
      image: "$image"
      command: [/bin/sh, -c, "echo /dev/nvidia*; exec sleep infinity"]
      env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]
---
apiVersion: v1
kind: Service
metadata: {name: net}
spec: {selector: {proof: net}, ports: [{port: 8080}]}
POD
    for host in "${gpu_hosts[@]}"; do
        cat <<POD
---
apiVersion: v1
kind: Pod
metadata: {name: net-$host, labels: {proof: net}}
spec:
  nodeSelector: {kubernetes.io/hostname: $host}
  containers:
    - name: main
      image: registry.k8s.io/e2e-test-images/agnhost:2.63.0
      args: [netexec, --http-port=8080, --udp-port=-1]
      readinessProbe: {httpGet: {path: /hostname, port: 8080}, periodSeconds: 1}
POD
    done
}

uuids() { on "$1" <<<'nvidia-smi --query-gpu=uuid --format=csv,noheader'; }
on_control_plane() { # on_control_plane FILE: kubectl apply of a local file
    local ssh
    mapfile -t ssh <"$work/ssh-$control_plane"
    "${ssh[@]}" 'sudo -n kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f -' <"$1"
}

image=nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0
workers=()
for host in "${hosts[@]}"; do [ "$host" = "$control_plane" ] || workers+=("$host"); done

make_control_plane "$control_plane" &
first=$!
all prepare "${workers[@]}"
wait "$first"
all join "${workers[@]}"
on_control_plane "$work/manifests/flannel.yml"
on_control_plane "$work/manifests/nvidia-device-plugin.yml"
kubectl wait nodes --all --for=condition=Ready --timeout=300s
for host in "${gpu_hosts[@]}"; do
    count=$(awk -v h="$host" '$1 == h { print $2 }' "$work/hosts")
    kubectl wait "node/$host" "--for=jsonpath={.status.allocatable.nvidia\.com/gpu}=$count" --timeout=300s
    kubectl wait "node/$host" "--for=jsonpath={.metadata.labels.nvidia\.com/gpu\.count}=$count" --timeout=300s
done

gpu_pods >"$work/proof.yml"
on_control_plane "$work/proof.yml"
kubectl wait pods --all --for=condition=Ready --timeout=300s
seen=$(kubectl logs --selector proof=gpu --container uuid --tail=-1 --max-log-requests=100 | sort)
there=$(for host in "${gpu_hosts[@]}"; do uuids "$host"; done | sort)
[ "$seen" = "$there" ] || { echo "pods saw: $seen; hosts have: $there"; exit 1; }
[ "$(kubectl logs greedy)" = '/dev/nvidia*' ] || { echo "a pod that asked for nothing saw a GPU"; exit 1; }
source="/api/v1/namespaces/default/pods/net-${gpu_hosts[0]}:8080/proxy/dial?request=hostname&protocol=http&port=8080&tries=1&host"
last=${gpu_hosts[${#gpu_hosts[@]} - 1]}
other=$(kubectl get pod "net-$last" -o 'jsonpath={.status.podIP}')
service=$(kubectl get service net -o 'jsonpath={.spec.clusterIP}')
for target in "$other" "$service" net.default.svc.cluster.local; do
    kubectl get --raw "$source=$target" | grep -q '"responses":\["net-' || { echo "no answer from $target"; exit 1; }
done
kubectl delete pods,services --selector '!component' --namespace default --grace-period=1 --wait=false
echo "$(wc -w <<<"$seen") of $(wc -w <<<"$there") GPUs verified"
