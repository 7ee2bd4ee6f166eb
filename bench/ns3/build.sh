#!/bin/sh
# An optimised ns-3 of what dumbbell.cc beside this needs, from Debian's source package: no asserts, no log, for this
# processor. Takes about 15 minutes of CPU time and 3 GB.
#     bench/ns3/build.sh DIRECTORY && bench/sim_speed.py --ns3 DIRECTORY/build
# Needs g++, cmake, ninja-build, dpkg-dev, libxml2-dev and libsqlite3-dev.
set -eu
mkdir -p "${1:?where to build}"
cd "$1"
# The index of source packages in a place of its own: the machine's sources stay as they are, and these are the same ones
# with deb-src for deb.
mkdir -p apt/lists apt/cache apt/parts
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$file" ] || sed -n 's/^[[:space:]]*deb[[:space:]]/deb-src /p' "$file" > "apt/parts/$(basename "$file" .list).list"
done
for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || sed 's/^[Tt]ypes:.*/Types: deb-src/' "$file" > "apt/parts/$(basename "$file")"
done
set -- -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/apt/parts" -o Dir::State::lists="$PWD/apt/lists" \
    -o Dir::Cache="$PWD/apt/cache"
apt-get "$@" update
apt-get "$@" source --download-only ns3
tar -xf ns3_*.orig.tar.*
source=$(echo "$PWD"/ns-allinone-*/ns-3.*)
cmake -S "$source" -B objects -G Ninja -DCMAKE_BUILD_TYPE=release -DNS3_ASSERT=OFF -DNS3_LOG=OFF \
    -DNS3_NATIVE_OPTIMIZATIONS=ON -DNS3_TESTS=OFF -DNS3_EXAMPLES=OFF \
    -DNS3_ENABLED_MODULES="core;network;internet;point-to-point;applications;traffic-control"
nice ninja -C objects libapplications libpoint-to-point libtraffic-control
ln -sfnT "$source/build" build
