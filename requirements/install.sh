#!/bin/sh
# Installs weightsmith and what it needs into a virtual environment: requirements/install.sh VENV core|dev
# On CPython 3.11 and 64-bit Linux every package but torch comes from core.txt or dev.txt, by its digest; elsewhere, and
# with WEIGHTSMITH_UNLOCKED=1, pip takes the newest that fit constraints.txt. A file with another digest ends it.
set -eu

cd "$(dirname "$0")/.."
python=$1/bin/python
case $2 in core) what=. ;; dev) what='.[dev]' ;; *) echo "core or dev, not $2" >&2; exit 2 ;; esac

install() {
    "$python" -m pip --disable-pip-version-check install --quiet --constraint constraints.txt "$@"
}

fits() {
    [ -z "${WEIGHTSMITH_UNLOCKED:-}" ] && "$python" -c 'import platform as p, sys; sys.exit(
        (p.python_implementation(), sys.version_info[:2], p.system(), p.machine()) != ("CPython", (3, 11), "Linux", "x86_64"))'
}

if fits; then
    log=$1/lock.log
    if install --no-deps --require-hashes --requirement "requirements/$2.txt" 2>"$log"; then
        install torch  # what it needs besides is there already; only a build for GPUs brings more
        install --no-deps --no-build-isolation --editable "$what"
        exit 0
    fi
    cat "$log" >&2
    if grep -q "DO NOT MATCH THE HASHES" "$log"; then
        exit 1
    fi
    echo "not every locked version is to be had here: the newest that fit constraints.txt are installed" >&2
fi
install torch
install --editable "$what"
