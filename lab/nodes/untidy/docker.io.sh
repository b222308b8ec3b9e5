export DEBIAN_FRONTEND=noninteractive
apt-get --quiet update
apt-get --quiet install --yes --no-install-recommends docker.io
