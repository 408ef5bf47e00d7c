#!/bin/sh
# Run as root during the image build: install the wheels next to this script, add the user, put CUDA on the loader path.
# Everything goes to /opt and /etc, except byte code of the standard library, which some bases lack.
set -eu
export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
here=$(dirname "$0")
began=$(mktemp)
modules=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
python3 -m compileall -q -x '/(test|idlelib|site-packages)/' --invalidation-mode unchecked-hash "$modules" || true
find "$modules" -newer "$began" -exec touch -h -d @0 {} +
rm "$began"
sh "$here/install.sh" /opt/tfbench python3

echo 'tfbench:x:10001:' >> /etc/group
echo 'tfbench:x:10001:10001::/tmp:/usr/sbin/nologin' >> /etc/passwd

# TensorFlow does not find all libraries of the CUDA wheels (libcusolver.so.11 first): it would register
# no GPU and silently train on the CPU. XLA looks for ptxas and libdevice in its CUDA data directory.
nvidia=$(echo /opt/tfbench/lib/python3*/site-packages/nvidia)
if [ -e "$nvidia/cuda_nvcc" ]; then
    ls -d "$nvidia"/*/lib > /etc/ld.so.conf.d/tfbench-cuda.conf
    ldconfig
    rm -f /var/cache/ldconfig/aux-cache
    ln -s "$nvidia/cuda_nvcc" /opt/cuda
    touch -d @0 /var/cache/ldconfig
    ldconfig -p | grep -q libcusolver.so.11
    test -x /opt/cuda/bin/ptxas
fi
find /opt /etc/group /etc/passwd /etc/ld.so.cache /etc/ld.so.conf.d -exec touch -h -d @0 {} +
touch -d @0 /etc /tmp
