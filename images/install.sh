#!/bin/sh
# Install the lock and the wheels beside this script into the virtual environment $1 of the Python $2, without a network.
# The same wheels give the same bytes and times, whoever builds and whenever.
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
# uv unpacks into its cache. Hard links to it, of which those in the environment stay: every file is written once.
export UV_CACHE_DIR="$work/cache" UV_LINK_MODE=hardlink UV_NO_CONFIG=1 UV_OFFLINE=1
"$uv" venv --quiet --allow-existing --no-managed-python --python "$python" "$environment"
"$uv" pip install --python "$environment/bin/python" --no-index --find-links "$here/wheels" --no-deps \
    --require-hashes --requirement "$here/requirements.lock"

# What no workload loads: headers and static libraries, tests, the C compiler's library that TensorFlow's wheel asks for,
# NVRTC built a second time, the solver over several GPUs.
cd "$environment"/lib/python3*/site-packages
rm -rf tensorflow/include clang nvidia/*/include nvidia/cuda_nvrtc/lib/*.alt.so.* nvidia/cusolver/lib/libcusolverMg.so.*
find . -name '*.a' -delete
find . -type d -name tests -prune -exec rm -rf {} +
# uv notes when a wheel was written.
rm -f ./*.dist-info/uv_cache.json
sed -i /uv_cache.json/d ./*.dist-info/RECORD
# Without byte code each import of TensorFlow takes twice as long: trials' root is read-only. Byte code depends on the
# order of sets and on what the same process has compiled before, hence the seed and shares of a fixed size.
find . -name '*.py' -print0 | LC_ALL=C sort -z | PYTHONHASHSEED=0 xargs -0 -n 200 -P "$(nproc)" \
    "$environment/bin/python" -m compileall -q --invalidation-mode unchecked-hash || true
