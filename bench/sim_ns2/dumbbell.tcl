# The dumbbell of Thombre 2020, table 4.2, for ns-2: scenarios/ns2.toml says the same in our words.
#   ns dumbbell.tcl cc cubic queue RED limit 50 tcp 8 step 0 kbps 448 seed 1
# Prints one line of figures; with `packets FILE`, what becomes of the packets of the tagged flows goes there. access is
# the delay of the senders' and the receivers' links in ms, minrto the least time-out in s (none: ns-2's own, 0.2).
array set o {cc cubic queue RED limit 50 tcp 8 step 0 kbps 448 seed 1 seconds 100 packets "" access 1 minrto ""}
array set o $argv
ns-random $o(seed)
remove-all-packet-headers
add-packet-header IP TCP Flags RTP
set sim [new Simulator]
Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 1000
set left [$sim node]
set right [$sim node]
$sim simplex-link $left $right 1.5Mb 50ms $o(queue)
$sim simplex-link $right $left 1.5Mb 50ms DropTail
$sim queue-limit $left $right $o(limit)
$sim queue-limit $right $left 1000
set monitor [$sim monitor-queue $left $right [open /dev/null w] 1]
if {$o(packets) ne ""} {set packets [open $o(packets) w]}
set starts [new RNG]
$starts seed $o(seed)
for {set i 0} {$i < 10} {incr i} {
    set from [$sim node]
    set to [$sim node]
    $sim duplex-link $from $left 10Mb $o(access)ms DropTail
    $sim duplex-link $right $to 10Mb [expr {$o(access) + $i * $o(step)}]ms DropTail
    foreach {a b} [list $from $left $left $from $right $to $to $right] {$sim queue-limit $a $b 5000}
    if {$o(packets) ne "" && ($i == 0 || $i == 9)} {
        $sim trace-queue $from $left $packets
        $sim trace-queue $right $to $packets
    }
    if {$i < $o(tcp)} {
        set agent [new Agent/TCP/Linux]
        $agent set timestamps_ true
        if {$o(minrto) ne ""} {$agent set minrto_ $o(minrto)}
        set sink [new Agent/TCPSink/Sack1]
        $sink set ts_echo_rfc1323_ true
        $sim at 0 "$agent select_ca $o(cc)"
        set load [new Application/FTP]
        set sender($i) $agent
    } else {
        set agent [new Agent/UDP]
        set sink [new Agent/Null]
        set load [new Application/Traffic/CBR]
        $load set packetSize_ 210
        $load set rate_ $o(kbps)Kb
    }
    $agent set fid_ $i
    $sim attach-agent $from $agent
    $sim attach-agent $to $sink
    $sim connect $agent $sink
    $load attach-agent $agent
    $sim at [$starts uniform 0 1] "$load start"
}
proc finish {} {
    global sim o sender monitor packets
    set acked 0
    foreach i [array names sender] {incr acked [$sender($i) set ack_]}
    set waiting [$monitor get-bytes-integrator]
    $waiting newpoint [$sim now] [$waiting set lasty_]
    puts "figures goodput_kbps [expr {$acked * 1460 * 8e-3 / $o(seconds)}]\
        util_pct [expr {[$monitor set bdepartures_] * 8 / 15e3 / $o(seconds)}]\
        drop_pct [expr {100.0 * [$monitor set pdrops_] / [$monitor set parrivals_]}]\
        drops [$monitor set pdrops_] queue_ms [expr {8e3 * [$waiting set sum_] / 1.5e6 / $o(seconds)}]"
    if {$o(packets) ne ""} {close $packets}
    exit 0
}
$sim at $o(seconds) finish
$sim run
