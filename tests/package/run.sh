#!/usr/bin/env bash
# run.sh BUILD WORK: installs BUILD below WORK, builds the outside project on it and runs both
# programs where neither the source tree nor an environment variable helps to find scenarios.
set -euo pipefail
build="$1" work="$2" here="$(cd "$(dirname "$0")" && pwd)"

rm -rf "$work/prefix" "$work/moved" "$work/outside"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
mv "$work/prefix" "$work/moved" # the tree must not depend on where it was installed
cmake -S "$here/outside" -B "$work/outside" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_PREFIX_PATH="$work/moved" >/dev/null
cmake --build "$work/outside"
"$work/outside/outside"
cd /
"$work/moved/bin/trainyard" version
