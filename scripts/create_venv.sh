#!/usr/bin/env bash
# Create the virtual environment $1 with a Python >= 3.11.
set -euo pipefail
venv=$1

usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ -x "$venv/bin/python" ] && usable "$venv/bin/python"; then exit 0; fi

for python in "${PYTHON:-python3.11}" python3.11 python3.12 python3.13 python3.14 python3; do
    if command -v "$python" >/dev/null && usable "$python"; then
        echo "== creating $venv with $("$python" --version)"
        if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            # Debian ships venv apart from Python.
            package="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
            if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
                apt-get update -qq
                apt-get install -y -qq --no-install-recommends "$package" >/dev/null
            else
                echo "Python's venv module is missing. Install it and run make again: sudo apt-get install $package" >&2
                exit 1
            fi
        fi
        exec "$python" -m venv "$venv"
    fi
done
echo "Python 3.11 or newer is needed, and none was found. Set PYTHON=/path/to/python if it is not on the PATH." >&2
exit 1
