# As Ubuntu's machines have it: a resolver of their own at 127.0.0.53, and the real name servers in another file.
servers=$(sed -n 's/^nameserver *//p' /etc/resolv.conf | tr '\n' ' ')
export DEBIAN_FRONTEND=noninteractive
apt-get --quiet update
apt-get --quiet install --yes --no-install-recommends systemd-resolved
mkdir -p /etc/systemd/resolved.conf.d
printf '[Resolve]\nDNS=%s\nFallbackDNS=\nDNSSEC=no\nLLMNR=no\nMulticastDNS=no\n' "$servers" >/etc/systemd/resolved.conf.d/50-lab.conf
systemctl enable --quiet systemd-resolved
systemctl restart systemd-resolved
ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
grep -q '^nameserver' /run/systemd/resolve/resolv.conf
