#!/usr/bin/env bash
# Run tests with each set of kernels that PyTorch has for a processor, and with one and with two threads: no test may hang
# on the last bits of the processor at hand. Arguments go to pytest; without any, the tests that train.
#
#   scripts/processor_settings.sh
#   scripts/processor_settings.sh tests/runtime/loop -x
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
[ $# -gt 0 ] || set -- tests/runtime tests/inspector tests/diagnosis tests/debugging tests/inference tests/export -m "not browser"

failed=0
for kernels in default avx2 avx512; do
    # A processor without avx512 falls back to what it has: that setting was run already.
    found=$(ATEN_CPU_CAPABILITY=$kernels "$python" -c \
        'import torch; print(torch.backends.cpu.get_cpu_capability().lower())')
    if [ "$found" != "$kernels" ]; then
        echo "$kernels: this processor has $found only"
        continue
    fi
    for threads in 1 2; do
        # `PNNE_THREADS` is read by tests/conftest.py; the other is for the processes that tests start.
        if ! summary=$(ATEN_CPU_CAPABILITY=$kernels PNNE_THREADS=$threads OMP_NUM_THREADS=$threads \
            "$python" -m pytest -n 0 -q -p no:cacheprovider "$@" 2>&1 | tee /dev/stderr | tail -n 1); then
            failed=1
        fi
        echo "$kernels, threads $threads: $summary"
    done
done
exit $failed
