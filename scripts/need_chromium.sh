#!/usr/bin/env bash
# Make sure that there is a Chromium for the browser tests; the tests say the same if they find none.
set -euo pipefail

if [ -n "${PNNE_CHROMIUM:-}" ] && [ -x "$PNNE_CHROMIUM" ]; then exit 0; fi
for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
if command -v apt-get >/dev/null; then
    if [ "$(id -u)" = 0 ]; then sudo=""; elif sudo -n true 2>/dev/null; then sudo="sudo -n"; else sudo=none; fi
    if [ "$sudo" != none ]; then
        echo "== installing Chromium for the browser tests"
        $sudo apt-get update -qq
        if $sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; then exit 0; fi
    fi
fi
echo "The browser tests need Chromium, and none was found. Install it (sudo apt-get install chromium)," \
    "or set PNNE_CHROMIUM to the path of a Chromium or Chrome." >&2
exit 1
