#!/bin/sh
# Builds the virtual environment in which other tools run beside weightsmith: benchmarks/peers/install.sh [VENV]
# Running it again changes nothing unless a pin has changed. Only pip finds the CPU build of torch.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
venv=${1:-"$root/.venv-peers"}

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
venv=$(CDPATH='' cd -- "$venv" && pwd)
install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$root/constraints.txt" "$@"
}

# torch alone first, so that no peer's own wish for it is ever weighed.
install torch
install --requirement "$here/requirements.txt"
install --no-deps --no-build-isolation --requirement "$here/nodeps.txt"
install --no-deps --no-build-isolation --editable "$root"

cd "$root"
"$venv/bin/python" -m benchmarks.peers.versions
