#!/bin/sh
# Shaper a little below the rate of the link, so that the queue stands here, where it is kept short. By tailback test.
#
#   sudo sh shaper-linux.sh on INTERFACE [adsl|vdsl]    start it, now and after each reboot
#   sudo sh shaper-linux.sh off                         stop it, and bring back what was before
#
# INTERFACE is the one towards the modem. Both may be run again. A queue that somebody else has set stays as it is.
set -eu
UP_KBIT=@UP_KBIT@        # 0: this direction needs no shaper
DOWN_KBIT=@DOWN_KBIT@

ROOT=${TAILBACK_ROOT:-}
STATE=$ROOT/usr/local/lib/tailback-shaper
UNIT=$ROOT/etc/systemd/system/tailback-shaper.service
IFB=ifb-tailback
MARK=7a1b:             # handle of our queues

die() {
    echo "tailback-shaper: $*" >&2
    exit 1
}

# Framing: CAKE counts cells of 53 bytes (ADSL) or 65 bytes for 64 (VDSL), with the overhead of each packet.
framing() {
    case "$LINK" in
        adsl) echo "overhead 44 atm" ;;
        vdsl) echo "overhead 30 ptm" ;;
    esac
}

# Rate of the wire that carries IP packets of 1500 bytes at this rate.
on_wire() {
    case "$LINK" in
        adsl) echo $(($1 * @ATM_BYTES@ / 1500)) ;;
        vdsl) echo $(($1 * @PTM_BYTES@ / 1500)) ;;
        *) echo "$1" ;;
    esac
}

# shape DEVICE KBIT OPTIONS: CAKE, or FQ-CoDel in a kernel without it.
shape() {
    # shellcheck disable=SC2046,SC2086
    if tc qdisc replace dev "$1" root handle $MARK cake bandwidth "$(on_wire "$2")kbit" $(framing) $3; then
        return
    fi
    echo "tailback-shaper: no CAKE in this kernel: FQ-CoDel instead" >&2
    # RFC 8290 section 5.2.1: the target is the time of one packet at least.
    target=$((12112 / $2 + 1))
    [ $target -ge 5 ] || target=5
    tc qdisc replace dev "$1" root handle $MARK htb default 1
    tc class replace dev "$1" parent $MARK classid ${MARK}1 htb rate "$2kbit" ceil "$2kbit"
    tc qdisc replace dev "$1" parent ${MARK}1 fq_codel target ${target}ms interval $((target * 20))ms quantum 300
}

# First queue of a device, such as "qdisc fq_codel 0: root": handle 0: is the kernel's own choice.
root_of() {
    tc qdisc show dev "$1" root | head -n 1
}

has_ifb() {
    ip link show dev $IFB >/dev/null 2>&1
}

start() {
    stop
    [ $UP_KBIT = 0 ] || shape "$WAN" $UP_KBIT nat
    [ $DOWN_KBIT = 0 ] || {
        ip link add $IFB type ifb
        ip link set $IFB up
        tc qdisc add dev "$WAN" handle ffff: ingress
        tc filter add dev "$WAN" parent ffff: matchall action mirred egress redirect dev $IFB
        shape $IFB $DOWN_KBIT "nat ingress"
    }
}

# Removes what is ours; the kernel then chooses its own queue again.
stop() {
    case "$(root_of "$WAN")" in
        *" $MARK "*) tc qdisc del dev "$WAN" root ;;
    esac
    if has_ifb; then
        tc qdisc del dev "$WAN" ingress || true
        ip link del $IFB
    fi
}

check() {
    case "$LINK" in
        plain | adsl | vdsl) ;;
        *) die "no link \"$LINK\": adsl, vdsl, or nothing" ;;
    esac
    ip link show dev "$WAN" >/dev/null || die "no interface $WAN"
    case "$(root_of "$WAN") " in
        " " | *" 0: "* | *" $MARK "*) ;;
        *) die "$WAN has a queue that somebody has set, and it stays: $(root_of "$WAN")" ;;
    esac
    if ! has_ifb && tc qdisc show dev "$WAN" | grep -q ingress; then
        die "$WAN has ingress rules that somebody has set, and they stay"
    fi
}

install_unit() {
    if ! [ -d "$ROOT/run/systemd/system" ]; then
        echo "No systemd here: let \"sh $STATE/shaper.sh start\" run at each boot."
        return
    fi
    cat >"$UNIT" <<END
[Unit]
Description=Shaper that keeps the queues of the link short
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh $STATE/shaper.sh start
ExecStop=/bin/sh $STATE/shaper.sh stop

[Install]
WantedBy=multi-user.target
END
    systemctl daemon-reload
    systemctl enable tailback-shaper.service
}

on() {
    WAN=$1 LINK=$2
    check
    # Another interface or other rates before: they end first.
    [ ! -e "$STATE/settings" ] || sh "$STATE/shaper.sh" stop
    mkdir -p "$STATE"
    [ -e "$STATE/before.txt" ] || tc qdisc show >"$STATE/before.txt"
    [ "$0" -ef "$STATE/shaper.sh" ] || cp "$0" "$STATE/shaper.sh"
    printf 'WAN=%s\nLINK=%s\n' "$WAN" "$LINK" >"$STATE/settings"
    if ! sh "$STATE/shaper.sh" start; then
        sh "$STATE/shaper.sh" off
        die "it could not be started, and all is as it was before"
    fi
    install_unit
    echo "$WAN is shaped. Undo it with: sudo sh $STATE/shaper.sh off"
}

off() {
    [ -e "$STATE/settings" ] || {
        echo "Nothing to undo."
        return
    }
    . "$STATE/settings"
    stop || true
    if [ -e "$UNIT" ]; then
        systemctl disable tailback-shaper.service || true
        rm -f "$UNIT"
        systemctl daemon-reload
    fi
    rm -f "$STATE/settings" "$STATE/before.txt" "$STATE/shaper.sh"
    rmdir "$STATE"
    echo "$WAN is as it was before."
}

case "${1:-}" in
    on)
        case "${2:-}" in
            "" | *[!A-Za-z0-9._@-]*) die "which interface is towards the modem? sh $0 on INTERFACE [adsl|vdsl]" ;;
        esac
        on "$2" "${3:-plain}"
        ;;
    off) off ;;
    start | stop)
        . "$STATE/settings"
        "$1"
        ;;
    *) die "sh $0 on INTERFACE [adsl|vdsl], or: sh $0 off" ;;
esac
