# Scenario scenarios/dumbbell.toml for ns-2: ten CUBIC flows, 60 s. Prints the segments acknowledged.
remove-all-packet-headers
add-packet-header IP TCP Flags
set sim [new Simulator]
Agent/TCP set packetSize_ 1000
Agent/TCP set window_ 1000
set left [$sim node]
set right [$sim node]
$sim duplex-link $left $right 100Mb 50ms DropTail
$sim queue-limit $left $right 1000
$sim queue-limit $right $left 100000
for {set i 0} {$i < 10} {incr i} {
    set from [$sim node]
    set to [$sim node]
    foreach {a b} [list $from $left $right $to] {
        $sim duplex-link $a $b 1Gb 5ms DropTail
        $sim queue-limit $a $b 100000
        $sim queue-limit $b $a 100000
    }
    set sender($i) [new Agent/TCP/Linux]
    set sink [new Agent/TCPSink/Sack1]
    $sender($i) set timestamps_ true
    $sink set ts_echo_rfc1323_ true
    $sim attach-agent $from $sender($i)
    $sim attach-agent $to $sink
    $sim connect $sender($i) $sink
    $sim at 0 "$sender($i) select_ca cubic"
    set load [new Application/FTP]
    $load attach-agent $sender($i)
    $sim at [expr 0.1 * $i] "$load start"
}
proc finish {} {
    global sender
    set sum 0
    for {set i 0} {$i < 10} {incr i} { incr sum [$sender($i) set ack_] }
    puts $sum
    exit 0
}
$sim at 60 finish
$sim run
