# Sourced by quickstart and test: enters the repository root, makes sure the Debian packages are
# there, and offers `build PRESET TARGET…`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(g++ cmake ninja-build python3 clang-format zlib1g-dev libfmt-dev libtomlplusplus-dev
  libcli11-dev nlohmann-json3-dev libutf8proc-dev libxxhash-dev
  libhiredis-dev redis-server libeigen3-dev libsimgrid-dev
  libgtest-dev libgmock-dev libbenchmark-dev)
jobs="${JOBS:-$(nproc)}"

ensure_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ]; then
    echo "Debian packages are missing. Run this line, then start again:" >&2
    echo "sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
  echo "installing ${missing[*]}" >&2
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# build PRESET TARGET…: configures build/PRESET if needed and builds the targets.
build() {
  local preset="$1"
  shift
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" -Wno-dev >/dev/null
  cmake --build "build/$preset" -j "$jobs" --target "$@" >&2
}
