#!/usr/bin/env bash
# Time to first token on a CUDA machine, without a network: see gpu.py. Arguments are passed on.
# Another Python than the checkout's own: PYTHON=python3 benchmarks/gpu.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
own="$here/../.venv/bin/python"
[ -x "$own" ] || own=python3
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONPATH="$here/..${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-$own}" "$here/gpu.py" "$@"
