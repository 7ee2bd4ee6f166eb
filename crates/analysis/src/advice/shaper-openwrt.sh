#!/bin/sh
# Shaper a little below the rate of the link with OpenWrt's SQM, so that the queue stands in the router. By tailback test.
#
#   sh shaper-openwrt.sh on [adsl|vdsl]    start it, now and after each reboot
#   sh shaper-openwrt.sh off               stop it, and bring back what was before
#
# Both may be run again. It has a section of its own, sqm.tailback: the queues that you have set stay as they are.
set -euf
UP_KBIT=@UP_KBIT@        # 0: SQM leaves this direction unshaped
DOWN_KBIT=@DOWN_KBIT@

ROOT=${TAILBACK_ROOT:-}
SQM=$ROOT/etc/init.d/sqm
CONFIG=$ROOT/etc/config/sqm
BACKUP=$CONFIG.before-tailback

die() {
    echo "tailback-shaper: $*" >&2
    exit 1
}

# Sections of SQM's configuration that shape this interface now, other than ours.
others() {
    uci -q show sqm | sed -n 's/^sqm\.\([^.=]*\)=.*$/\1/p' | while read -r section; do
        if [ "$section" != tailback ] \
            && [ "$(uci -q get "sqm.$section.interface")" = "$1" ] \
            && [ "$(uci -q get "sqm.$section.enabled")" = 1 ]; then
            echo "$section"
        fi
    done
}

on() {
    case "$1" in
        plain) layer=none overhead=0 wire=1500 ;;
        adsl) layer=atm overhead=44 wire=@ATM_BYTES@ ;;
        # SQM has no PTM: its 65 bytes for 64 are left out of the rate as well.
        vdsl) layer=ethernet overhead=30 wire=1530 ;;
        *) die "no link \"$1\": adsl, vdsl, or nothing" ;;
    esac
    if ! [ -x "$SQM" ]; then
        if command -v apk >/dev/null; then
            apk update && apk add sqm-scripts
        else
            opkg update && opkg install sqm-scripts
        fi
    fi
    wan=$(uci -q get network.wan.device || uci -q get network.wan.ifname) || die "no network.wan in this router"
    other=$(others "$wan")
    [ -z "$other" ] || die "sqm.$other shapes $wan already, and it stays. Set its download to $DOWN_KBIT and its upload to $UP_KBIT instead"
    [ -e "$BACKUP" ] || cp "$CONFIG" "$BACKUP"
    uci set sqm.tailback=queue
    uci set sqm.tailback.interface="$wan"
    uci set sqm.tailback.download=$((DOWN_KBIT * wire / 1500))
    uci set sqm.tailback.upload=$((UP_KBIT * wire / 1500))
    uci set sqm.tailback.qdisc=cake
    uci set sqm.tailback.script=piece_of_cake.qos
    uci set sqm.tailback.linklayer=$layer
    uci set sqm.tailback.overhead=$overhead
    uci set sqm.tailback.enabled=1
    uci commit sqm
    "$SQM" enable
    "$SQM" restart
    echo "$wan is shaped. Undo it with: sh $0 off"
}

off() {
    uci -q delete sqm.tailback || {
        echo "Nothing to undo."
        return
    }
    uci commit sqm
    [ ! -x "$SQM" ] || "$SQM" restart
    echo "The shaper is gone. The configuration from before it is in $BACKUP."
}

case "${1:-}" in
    on) on "${2:-plain}" ;;
    off) off ;;
    *) die "sh $0 on [adsl|vdsl], or: sh $0 off" ;;
esac
