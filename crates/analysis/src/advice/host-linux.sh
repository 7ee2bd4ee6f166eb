#!/bin/sh
# Settings with which this host's own transfers fill the queue less. They do not help against other hosts. By tailback test.
#
#   sudo sh host-linux.sh on     set them, now and after each reboot
#   sudo sh host-linux.sh off    bring back what was before
#
# Both may be run again.
set -eu
UP=@UP@          # 1: for uploads
DOWN=@DOWN@        # 1: for downloads

ROOT=${TAILBACK_ROOT:-}
SET=$ROOT/etc/sysctl.d/90-tailback-host.conf
BEFORE=$ROOT/var/lib/tailback-host/before.conf

die() {
    echo "tailback-host: $*" >&2
    exit 1
}

settings() {
    if [ $UP = 1 ]; then
        echo "net.ipv4.tcp_notsent_lowat = 131072"
        # BBR paces what it sends; a kernel without it keeps its controller.
        modprobe tcp_bbr 2>/dev/null || true
        case " $(sysctl -n net.ipv4.tcp_available_congestion_control) " in
            *" bbr "*) echo "net.ipv4.tcp_congestion_control = bbr" ;;
        esac
    fi
    if [ $DOWN = 1 ]; then
        # Limits the bytes that a sender may have in flight to this host.
        echo "net.ipv4.tcp_rmem = 4096 65536 262144"
    fi
}

on() {
    mkdir -p "$(dirname "$BEFORE")" "$(dirname "$SET")"
    settings >"$SET.new"
    if ! [ -e "$BEFORE" ]; then
        sed 's/ *=.*//' "$SET.new" | while read -r key; do
            echo "$key = $(sysctl -n "$key")"
        done >"$BEFORE.new"
        mv "$BEFORE.new" "$BEFORE"
    fi
    mv "$SET.new" "$SET"
    sysctl -p "$SET"
    echo "Set. Undo it with: sudo sh $0 off"
}

off() {
    [ -e "$BEFORE" ] || {
        echo "Nothing to undo."
        return
    }
    rm -f "$SET"
    sysctl -p "$BEFORE"
    rm "$BEFORE"
    rmdir "$(dirname "$BEFORE")" 2>/dev/null || true
}

case "${1:-}" in
    on | off) "$1" ;;
    *) die "sh $0 on, or: sh $0 off" ;;
esac
