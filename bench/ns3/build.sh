#!/bin/sh
# An optimised ns-3 of what dumbbell.cc beside this needs, from Debian's source package: no asserts, no log, for this
# processor. Takes about 15 minutes of CPU time and 3 GB.
#     bench/ns3/build.sh DIRECTORY && bench/sim_speed.py --ns3 DIRECTORY/build
# Needs g++, cmake, ninja-build, dpkg-dev, libxml2-dev and libsqlite3-dev.
set -eu
mkdir -p "${1:?where to build}"
cd "$1"
# The index of source packages in a place of its own: the machine's sources stay as they are.
mkdir -p apt/lists apt/cache
echo "deb-src http://deb.debian.org/debian bookworm main" > apt/sources.list
set -- -o Dir::Etc::sourcelist="$PWD/apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$PWD/apt/lists" \
    -o Dir::Cache="$PWD/apt/cache"
apt-get "$@" update
apt-get "$@" source --download-only ns3
tar -xf ns3_*.orig.tar.*
source=$(echo "$PWD"/ns-allinone-*/ns-3.*)
cmake -S "$source" -B objects -G Ninja -DCMAKE_BUILD_TYPE=release -DNS3_ASSERT=OFF -DNS3_LOG=OFF \
    -DNS3_NATIVE_OPTIMIZATIONS=ON -DNS3_TESTS=OFF -DNS3_EXAMPLES=OFF \
    -DNS3_ENABLED_MODULES="core;network;internet;point-to-point;applications;traffic-control"
nice ninja -C objects libapplications libpoint-to-point libtraffic-control
ln -sfn "$source/build" build
