#!/bin/sh
# Install the wheels next to this script, as pinned by the lock, into the virtual environment $1 of the Python $2, offline.
# The result is reproducible: the same wheels give the same bytes and timestamps.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
environment=$1
python=$2
mkdir -p "$environment"
work=$(mktemp -d "$environment/.install-XXXXXX")
trap 'rm -rf "$work"' EXIT

"$python" -m zipfile -e "$here"/wheels/uv-*.whl "$work"
uv=$(echo "$work"/uv-*.data/scripts/uv)
chmod +x "$uv"
# uv unpacks into its cache and hard-links into the environment, so every file is written once.
export UV_CACHE_DIR="$work/cache" UV_LINK_MODE=hardlink UV_NO_CONFIG=1 UV_OFFLINE=1
"$uv" venv --quiet --allow-existing --no-managed-python --python "$python" "$environment"
"$uv" pip install --python "$environment/bin/python" --no-index --find-links "$here/wheels" --no-deps \
    --require-hashes --requirement "$here/requirements.lock"

# Remove what no workload loads: headers, static libraries, tests, libclang, the alternative NVRTC build, cuSolverMg.
cd "$environment"/lib/python3*/site-packages
rm -rf tensorflow/include clang nvidia/*/include nvidia/cuda_nvrtc/lib/*.alt.so.* nvidia/cusolver/lib/libcusolverMg.so.*
find . -name '*.a' -delete
find . -type d -name tests -prune -exec rm -rf {} +
# uv records timestamps of the wheels.
rm -f ./*.dist-info/uv_cache.json
sed -i /uv_cache.json/d ./*.dist-info/RECORD
# Trials have a read-only root, so without byte code every import of TensorFlow would take twice as long. Byte code
# depends on set order and on what the process compiled before, hence the fixed hash seed and batch size.
find . -name '*.py' -print0 | LC_ALL=C sort -z | PYTHONHASHSEED=0 xargs -0 -n 200 -P "$(nproc)" \
    "$environment/bin/python" -m compileall -q --invalidation-mode unchecked-hash || true
