"""Verbs of the command `tailback` as functions, with the same names, defaults and figures.

Made from the command's definitions by `cargo test --test verbs_py` with HELP=write; do not edit.
"""

from __future__ import annotations

from ._answer import Answer
from ._call import call as _call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from ._types import Duration, Pairs, Path, Progress, Time

__all__ = [
    "agent",
    "analyse",
    "compare",
    "completions",
    "control_plan",
    "control_prove",
    "control_run",
    "control_status",
    "control_stop",
    "emulate",
    "export",
    "fleet_label",
    "fleet_log",
    "fleet_plan",
    "fleet_report",
    "fleet_run_now",
    "fleet_status",
    "fleet_upgrade",
    "hub",
    "hub_forget",
    "hub_invite",
    "hub_operator",
    "hub_reader",
    "hub_revoke",
    "import_",
    "list_",
    "load",
    "man",
    "mark",
    "model",
    "monitor",
    "neighbours",
    "probe",
    "prove",
    "report",
    "run",
    "serve",
    "serve_keys_add",
    "serve_keys_list",
    "serve_keys_remove",
    "share",
    "status",
    "test",
    "trace",
    "twin",
    "whatif",
]


def test(
    server: str | None = None,
    *,
    via: str | None = None,
    via_ca: Path | None = None,
    link: str | None = None,
    set: Pairs | None = None,
    virtual: bool = False,
    seed: int | None = None,
    key_file: Path | None = None,
    pin: str | None = None,
    login_check: str | None = None,
    login_cmd: str | None = None,
    ipv4: bool = False,
    ipv6: bool = False,
    phases: Iterable[str] | str | None = None,
    flows: int | None = None,
    congestion: str | None = None,
    udp: str | None = None,
    interval: Duration | None = None,
    longest: Duration | None = None,
    budget: str | None = None,
    interface: Iterable[str] | str | None = None,
    at_once: bool = False,
    load_from: str | None = None,
    hold_off: Duration | bool | None = None,
    no_wait: bool = False,
    contract: str | None = None,
    fail_above: Duration | None = None,
    capture: bool = False,
    title: str | None = None,
    output: Path | None = None,
    full: bool = False,
    print_plan: bool = False,
    progress: Progress = None,
) -> Answer:
    """Find the queue of a link: idle, download, upload, both.

    Args:
        server: Server: a name or address, with :PORT if it is not the default port
        via: Server of another protocol: https://HOST/.well-known/nq, ndt7:HOST, https://HOST/FILE or
            iperf3:HOST[:PORT]
        via_ca: Trust a private authority, a PEM file, for the certificate of the --via server
        link: Emulated link to test if there is no server: a name (see `tailback list links`) or TOML file
            [default: adsl]
        set: Change one value of the emulated link, such as up.queue=codel or down.rate="20 Mbit/s"
        virtual: Run in virtual time instead of emulating the link: needs no privileges, takes seconds [default:
            false]
        seed: Seed of the run in virtual time [default: 1]
        key_file: File with one line "NAME KEY", as printed by `tailback serve keys add` (or set TAILBACK_KEY to
            the line)
        pin: Public key of the server, sha256:…, as printed by `tailback serve`: control messages then travel
            inside TLS 1.3, and UDP probes are signed
        login_check: Ask this host by plain HTTP, before the measurement, if a log-in page of the network
            answers in its place
        login_cmd: Command that passes a log-in page, for up to 60 s; TAILBACK_LOGIN_URL has the page's address.
            The measurement then goes on
        ipv4: Use IPv4 only [default: false]
        ipv6: Use IPv6 only [default: false]
        phases: Phases to run [default: idle,down,up,both; with --via those that the server can load]
        flows: TCP connections in each direction [default: 2 below 10 Mbit/s, else 4; 1 over ndt7]
        congestion: Congestion control of the load [default: cubic where the kernel allows it]
        udp: Load with UDP at this rate instead of TCP
        interval: Interval between probes [default: by the link's rate, 10 ms at the fastest]
        longest: Upper limit on a loaded phase, warm-up included [default: 15 s after the warm-up, or 40 round
            trips under load]
        budget: Upper limit on traffic, both directions combined [default: 400MB]
        interface: Interface that all traffic of the run is bound to, and whose counters show cross traffic. Of
            several, such as modems, the link through each is measured in turn, and the answers stand side by
            side [default: as the kernel routes to the server]
        at_once: Measure through all of several interfaces at the same time. Downloads from one server wait for
            each other even so [default: false]
        load_from: Second machine behind the same link that makes the loads, by ssh(1), so that this host's own
            queue stays empty; it needs this program. Trains above the link's rate are left out
        hold_off: Wait until there is no cross traffic, at most this long, before the test starts
        no_wait: Fail at once if another client is loading the server's uplink, instead of waiting in the queue
            [default: false]
        contract: Contracted rates, DOWN/UP, such as 50mbit/10mbit
        fail_above: Exit with 1 if the 95th percentile of the delay added in a direction is above this
        capture: Capture TCP packets of the loads at both ends (`serve --allow-capture`), compare the captures
            packet by packet, and keep them in the recording; it needs CAP_NET_RAW here [default: false]
        title: Name of the run in its report
        output: Recording to write [default: tailback-DATE-TIME.rec in this directory]
        full: Print all figures with their evidence, instead of an answer of one screen [default: false]
        print_plan: Print the plan as JSON and stop [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("test",),
        {"server": server},
        {"via": via, "via_ca": via_ca, "link": link, "set": set, "virtual": virtual, "seed": seed, "key_file": key_file, "pin": pin, "login_check": login_check, "login_cmd": login_cmd, "ipv4": ipv4, "ipv6": ipv6, "phases": phases, "flows": flows, "congestion": congestion, "udp": udp, "interval": interval, "longest": longest, "budget": budget, "interface": interface, "at_once": at_once, "load_from": load_from, "hold_off": hold_off, "no_wait": no_wait, "contract": contract, "fail_above": fail_above, "capture": capture, "title": title, "output": output, "full": full, "print_plan": print_plan},
        not_json=("full",),
        progress=progress,
    )


def probe(
    probe: str,
    server: str | None = None,
    *,
    link: Iterable[str] | str | None = None,
    set: Pairs | None = None,
    virtual: bool = False,
    seed: int | None = None,
    others: str | None = None,
    key_file: Path | None = None,
    pin: str | None = None,
    login_check: str | None = None,
    login_cmd: str | None = None,
    also: Iterable[str] | str | None = None,
    ipv4: bool = False,
    ipv6: bool = False,
    budget: str | None = None,
    interface: Iterable[str] | str | None = None,
    at_once: bool = False,
    hold_off: Duration | bool | None = None,
    no_wait: bool = False,
    beside_others: bool = False,
    every: Duration | None = None,
    times: int | None = None,
    title: str | None = None,
    output: Path | None = None,
    print_plan: bool = False,
    progress: Progress = None,
) -> Answer:
    """Run one experiment: the highest rate without loss, the largest burst, the best size ….

    Args:
        probe: Experiment with its parameters: KIND or KIND:key=value,key=value
        server: Server: a name or address, with :PORT if it is not the default port
        link: Run both ends on this machine, over this emulated link: a name (see `tailback list links`) or TOML
            file. If repeated, the first is the near end, with a router between one and the next
        set: Change one value of the emulated link, such as up.queue=codel; of the second of several links,
            hop2.up.queue=codel
        virtual: Run in virtual time instead of emulating the link: needs no privileges, takes seconds [default:
            false]
        seed: Seed of the run in virtual time [default: 1]
        others: Add random cross traffic at this rate to the emulated uplink, in packets of mixed sizes
        key_file: File with one line "NAME KEY", as printed by `tailback serve keys add` (or set TAILBACK_KEY to
            the line)
        pin: Public key of the server, sha256:…, as printed by `tailback serve`: control messages then travel
            inside TLS 1.3, and UDP probes are signed
        login_check: Ask this host by plain HTTP, before the measurement, if a log-in page of the network
            answers in its place
        login_cmd: Command that passes a log-in page, for up to 60 s; TAILBACK_LOGIN_URL has the page's address.
            The measurement then goes on
        also: Address beside the server's that the probe may send to: a second address of the server, or your
            own public one (`nat`, `ipv6`); may be repeated [default: all addresses of the server's name]
        ipv4: Use IPv4 only [default: false]
        ipv6: Use IPv6 only [default: false]
        budget: Upper limit on traffic, both directions combined [default: 100MB]
        interface: Interface that all traffic of the run is bound to, and whose counters show cross traffic. Of
            several, such as modems, the link through each is measured in turn, and the answers stand side by
            side [default: as the kernel routes to the server]
        at_once: Measure through all of several interfaces at the same time. Downloads from one server wait for
            each other even so [default: false]
        hold_off: Wait until there is no cross traffic, at most this long, instead of giving up
        no_wait: Fail at once if another client is loading the server's uplink, instead of waiting in the queue
            [default: false]
        beside_others: Do not abort when there is cross traffic [default: false]
        every: Repeat at this interval (start to start), each run into its own recording
        times: Number of runs with --every [default: until interrupted]
        title: Name of the run in its report
        output: Recording to write [default: tailback-DATE-TIME.rec in this directory]
        print_plan: Print the plan as JSON and stop [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("probe",),
        {"probe": probe, "server": server},
        {"link": link, "set": set, "virtual": virtual, "seed": seed, "others": others, "key_file": key_file, "pin": pin, "login_check": login_check, "login_cmd": login_cmd, "also": also, "ipv4": ipv4, "ipv6": ipv6, "budget": budget, "interface": interface, "at_once": at_once, "hold_off": hold_off, "no_wait": no_wait, "beside_others": beside_others, "every": every, "times": times, "title": title, "output": output, "print_plan": print_plan},
        not_json=("every",),
        progress=progress,
    )


def monitor(
    *targets: str,
    config: Path | None = None,
    print_config: bool = False,
    interval: Duration | None = None,
    ipv4: str | bool | None = None,
    ipv6: str | bool | None = None,
    interface: Iterable[str] | str | None = None,
    traffic_interval: Duration | None = None,
    lost_after: Duration | None = None,
    flush: Duration | None = None,
    keep_free: str | None = None,
    max_size: str | None = None,
    title: str | None = None,
    output: Path | None = None,
    duration: Duration | None = None,
    on_outage: str | None = None,
    webhook: str | None = None,
    mail: str | None = None,
    alert_after: Duration | None = None,
    alert_delay: Duration | None = None,
    alert_loss: float | None = None,
    mark_on: str | None = None,
    modem_cmd: str | None = None,
    modem_every: Duration | None = None,
    radio_every: Duration | None = None,
    metrics: Path | None = None,
    web: str | None = None,
    web_token: str | None = None,
    key_file: Path | None = None,
    pin: str | None = None,
    print_plan: bool = False,
    progress: Progress = None,
) -> Answer:
    """Record delay, traffic and availability for weeks.

    Args:
        targets: Targets to probe; at most one SERVER. With --interface it may be left out: then nothing is
            sent, and traffic is counted
        config: TOML file with settings, named as the options; an option here precedes it
        print_config: Print all settings and their origin as TOML, for --config, and stop [default: false]
        interval: Interval between probes, 1 ms to 1 h [default: 100 ms]
        ipv4: Use IPv4 only
        ipv6: Use IPv6 only
        interface: Interface whose traffic and availability are recorded, and that the probes are bound to;
            through each of several, such as modems, every target is probed [default: the interface towards the
            first target]
        traffic_interval: Interval between readings of the interface's counters [default: 100 ms]
        lost_after: Time after which an unanswered probe is lost; an answer after that is recorded as late
            [default: 10 s]
        flush: Interval at which rows are written to disk: a power cut costs at most this much [default: 500 ms]
        keep_free: Thin old detail if less than this is left on the disk [default: 5 % of it, at most 1 GB]
        max_size: Thin old detail if the recording is larger than this
        title: Name of the recording in reports
        output: Recording to write; an existing one is continued [default: monitor.rec]
        duration: Stop after this time
        on_outage: Command to run when a target stops answering, and when it answers steadily again. It finds
            the target in $TAILBACK_TARGET, `down` or `up` in $TAILBACK_STATE, and the silence in
            $TAILBACK_SECONDS. The book has the words of --alert-delay and --alert-loss
        webhook: Address to which the same is posted as JSON, by curl(1)
        mail: Address to which the same is mailed, by sendmail(8)
        alert_after: Silence that is an outage, and time of answers that ends it [default: 10 s, and 10
            intervals at least]
        alert_delay: Alert if 5 % of a minute's round trips are at least this long; over at three quarters of it
        alert_loss: Alert if at least this share of a minute's probes is lost; over at half of it
        mark_on: Command to run beside the monitor: each line that it prints marks a moment of the recording
            with that text
        modem_cmd: Command that prints the state of the modem: key=value or JSON, with the keys rate_down,
            rate_up, margin_down, margin_up, attenuation_down, attenuation_up, crc_down, crc_up, fec_down and
            fec_up, and for a radio interface, technology, cell, operator, rssi, rsrp, snr and quality
        modem_every: Interval at which --modem-cmd runs [default: 30 s]
        radio_every: Interval between readings of the radios: Wi-Fi, and cellular modems that ModemManager
            knows; 0s for none [default: 10 s]
        metrics: File to write the state to, in Prometheus' text format, for the textfile collector of
            node_exporter
        web: Address on which to serve the page, its live state, and /metrics for Prometheus, such as
            127.0.0.1:8117
        web_token: Token that readers of --web need [default: none on a loopback address, elsewhere a random
            one, which is printed]
        key_file: File with one line "NAME KEY", as printed by `tailback serve keys add` (or set TAILBACK_KEY to
            the line)
        pin: Public key of the server, sha256:…, as printed by `tailback serve`: control messages then travel
            inside TLS 1.3, and UDP probes are signed
        print_plan: Print the plan as JSON and stop [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("monitor",),
        {"targets": targets},
        {"config": config, "print_config": print_config, "interval": interval, "ipv4": ipv4, "ipv6": ipv6, "interface": interface, "traffic_interval": traffic_interval, "lost_after": lost_after, "flush": flush, "keep_free": keep_free, "max_size": max_size, "title": title, "output": output, "duration": duration, "on_outage": on_outage, "webhook": webhook, "mail": mail, "alert_after": alert_after, "alert_delay": alert_delay, "alert_loss": alert_loss, "mark_on": mark_on, "modem_cmd": modem_cmd, "modem_every": modem_every, "radio_every": radio_every, "metrics": metrics, "web": web, "web_token": web_token, "key_file": key_file, "pin": pin, "print_plan": print_plan},
        not_json=(),
        progress=progress,
    )


def status(
    recording: Path,
    *,
    last: Duration | None = None,
    max_silence: Duration | None = None,
    csv: bool = False,
    progress: Progress = None,
) -> Answer:
    """Show the state of a monitor that runs elsewhere, from its recording.

    Args:
        recording: Recording of a monitor
        last: Time before now to which the figures belong, at most 7 days [default: 1h]
        max_silence: Exit with 1 if a target has not answered for longer than this, or if no process writes the
            recording
        csv: Print one row a target with plain numbers [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("status",),
        {"recording": recording},
        {"last": last, "max_silence": max_silence, "csv": csv},
        not_json=("csv",),
        progress=progress,
    )


def mark(
    recording: Path,
    text: str | None = None,
    *,
    at: Time | None = None,
    zone: str | None = None,
    mark_on: str | None = None,
    progress: Progress = None,
) -> Answer:
    """Mark moments of a recording, such as the begin of a call.

    Args:
        recording: Recording to mark
        text: Text of the moment, at most 120 characters
        at: Time of the moment, such as 2026-05-16T09:17:20 [default: now, if the recording is being written]
        zone: Time zone of --at and of the printed times, such as Europe/Oslo [default: this host's]
        mark_on: Command to run: each line that it prints becomes a moment, with the time at which it was
            printed; at most 1000
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("mark",),
        {"recording": recording, "text": text},
        {"at": at, "zone": zone, "mark_on": mark_on},
        not_json=(),
        progress=progress,
    )


def serve(
    *,
    listen: Iterable[str] | str | None = None,
    keys: Path | None = None,
    state: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_only: bool = False,
    allow: Iterable[str] | str | None = None,
    max_clients: int | None = None,
    bytes_per_hour: str | None = None,
    total_bytes_per_hour: str | None = None,
    allow_listen: str | None = None,
    allow_capture: bool = False,
    max_rate: str | None = None,
    max_udp_rate: str | None = None,
    irtt: str | bool | None = None,
    stamp: str | bool | None = None,
    iperf3: str | bool | None = None,
    web: str | bool | None = None,
    web_cert: Path | None = None,
    web_key: Path | None = None,
    acme: str | None = None,
    web_name: Iterable[str] | str | None = None,
    acme_agree: bool = False,
    acme_contact: str | None = None,
    acme_ca: Path | None = None,
    web_keep: Path | None = None,
    web_keep_size: str | None = None,
    rpm: bool = False,
    ndt7: bool = False,
    log: Literal["json"] | None = None,
    metrics: Path | None = None,
    user: str | None = None,
    progress: Progress = None,
) -> Answer:
    """Run the server: answer probes, receive uploads, send downloads.

    Args:
        listen: Address and port to listen on
        keys: File of the users who are served, a line "NAME KEY" for each key; read again when it changes and
            on SIGHUP [default: everybody is served]
        state: Directory in which the server keeps its TLS key, and certificates of --acme [default:
            $STATE_DIRECTORY, or tailback-serve below $XDG_STATE_HOME or ~/.local/state]
        tls_cert: Certificate of your own (PEM), instead of one that the server makes
        tls_key: Private key of --tls-cert (PEM)
        tls_only: Refuse clients whose control messages are not inside TLS 1.3 [default: false]
        allow: Serve clients of this network only, such as 192.0.2.0/24; may be repeated [default: all]
        max_clients: Clients served at once [default: 64]
        bytes_per_hour: Bytes that one client may move in an hour, both directions combined [default: 100 GB]
        total_bytes_per_hour: Bytes that all clients together may move in an hour [default: 1000 GB]
        allow_listen: Ports to open for clients for a while, such as 80,443,40000-40999, or "any"; `tailback
            probe nat`, `ports`, `ipv6`, `middlebox`, `ecn`, `l4s`, `nqb`, `quic` and `check` need some
            [default: none]
        allow_capture: Capture for a client the TCP packets between it and this server, without their payload:
            `tailback test --capture` [default: false]
        max_rate: Upper limit on the rate of all that the server sends and asks for, both directions combined
            [default: none]
        max_udp_rate: Upper limit on the sum of all UDP load and trains [default: 10 Gbit/s]
        irtt: Answer irtt's clients, SmokePing and flent among them [default of ADDRESS:PORT: [::]:2112]
        stamp: Answer clients of STAMP (RFC 8762) and TWAMP-Light: ten packets a second of one network, or 2,000
            of those that --allow names [default of ADDRESS:PORT: [::]:862]
        iperf3: Take tests of iperf3's client over TCP, one client at a time [default of ADDRESS:PORT:
            [::]:5201]
        web: Offer the test to browsers on a page, over HTTPS, or HTTP at a loopback address [default of
            ADDRESS:PORT: [::]:8443]
        web_cert: Certificate of the page (PEM), instead of one that the server makes and browsers warn of
        web_key: Private key of --web-cert (PEM)
        acme: Get the certificate of the page from this authority, by ACME, and renew it: letsencrypt,
            letsencrypt-staging or the https address of its directory; it connects to port 443 of each name
        web_name: Name or address under which browsers reach the page; may be repeated
        acme_agree: Agree to the terms of service of that authority, which the server names when it asks for its
            account [default: false]
        acme_contact: Address for that authority's messages, such as mailto:anna@example.org
        acme_ca: Trust a private authority, a PEM file, for the certificate of that directory
        web_keep: Keep the recordings that users of the page save in this directory [default: none is kept]
        web_keep_size: Size of that directory above which no more are kept [default: 1 GB]
        rpm: Take tests of clients of responsiveness, such as networkQuality, at the page's port:
            https://HOST:8443/.well-known/nq [default: false]
        ndt7: Take tests of clients of ndt7 at the page's port [default: false]
        log: Write one line for each session that ends and each refusal to standard output
        metrics: Write counters for Prometheus to this file every ten seconds (textfile collector of
            node_exporter)
        user: User to become once the ports are open, if started as root [default: nobody]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("serve",),
        {},
        {"listen": listen, "keys": keys, "state": state, "tls_cert": tls_cert, "tls_key": tls_key, "tls_only": tls_only, "allow": allow, "max_clients": max_clients, "bytes_per_hour": bytes_per_hour, "total_bytes_per_hour": total_bytes_per_hour, "allow_listen": allow_listen, "allow_capture": allow_capture, "max_rate": max_rate, "max_udp_rate": max_udp_rate, "irtt": irtt, "stamp": stamp, "iperf3": iperf3, "web": web, "web_cert": web_cert, "web_key": web_key, "acme": acme, "web_name": web_name, "acme_agree": acme_agree, "acme_contact": acme_contact, "acme_ca": acme_ca, "web_keep": web_keep, "web_keep_size": web_keep_size, "rpm": rpm, "ndt7": ndt7, "log": log, "metrics": metrics, "user": user},
        not_json=("log",),
        progress=progress,
    )


def serve_keys_add(
    name: str,
    *,
    keys: Path,
    until: str | None = None,
    passphrase: bool = False,
    progress: Progress = None,
) -> Answer:
    """Add a key, and print the line for the client's --key-file.

    Args:
        name: Name of the user: 1 to 32 letters, digits, dots, dashes or underscores
        keys: File of keys, made with mode 0600 if there is none
        until: Last day on which the key is valid (UTC), such as 2027-01-31 [default: no end]
        passphrase: Read a passphrase from standard input instead of making a random key; it is stored stretched
            [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("serve", "keys", "add"),
        {"name": name},
        {"keys": keys, "until": until, "passphrase": passphrase},
        not_json=None,
        progress=progress,
    )


def serve_keys_list(
    *,
    keys: Path,
    progress: Progress = None,
) -> Answer:
    """List users and fingerprints of their keys.

    Args:
        keys: File of keys, made with mode 0600 if there is none
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("serve", "keys", "list"),
        {},
        {"keys": keys},
        not_json=None,
        progress=progress,
    )


def serve_keys_remove(
    name: str,
    *,
    keys: Path,
    fingerprint: str | None = None,
    progress: Progress = None,
) -> Answer:
    """Remove the keys of a user.

    Args:
        name: Name of the user
        keys: File of keys, made with mode 0600 if there is none
        fingerprint: Remove this key only, as `list` shows it
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("serve", "keys", "remove"),
        {"name": name},
        {"keys": keys, "fingerprint": fingerprint},
        not_json=None,
        progress=progress,
    )


def neighbours(
    *,
    interface: str | None = None,
    progress: Progress = None,
) -> Answer:
    """Find the hosts and services of this host's own subnet.

    Args:
        interface: Interface whose subnet is asked [default: the interface towards the Internet]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("neighbours",),
        {},
        {"interface": interface},
        not_json=(),
        progress=progress,
    )


def load(
    server: str,
    *,
    budget: str | None = None,
    key_file: Path | None = None,
    pin: str | None = None,
    ipv4: bool = False,
    ipv6: bool = False,
    progress: Progress = None,
) -> Answer:
    """Load a link for the test of another machine.

    Args:
        server: Server: a name or address, with :PORT if it is not the default port
        budget: Upper limit on the payload of all loads, both directions combined [default: 2GB]
        key_file: File with one line "NAME KEY", as printed by `tailback serve keys add` (or set TAILBACK_KEY to
            the line)
        pin: Public key of the server, sha256:…, as printed by `tailback serve`: control messages then travel
            inside TLS 1.3, and UDP probes are signed
        ipv4: Use IPv4 only [default: false]
        ipv6: Use IPv6 only [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("load",),
        {"server": server},
        {"budget": budget, "key_file": key_file, "pin": pin, "ipv4": ipv4, "ipv6": ipv6},
        not_json=None,
        progress=progress,
    )


def control_plan(
    *,
    wan: str,
    progress: Progress = None,
) -> Answer:
    """Show the hook, the signals and the blockers; change nothing.

    Args:
        wan: Interface towards the modem
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("control", "plan"),
        {},
        {"wan": wan},
        not_json=(),
        progress=progress,
    )


def control_run(
    *,
    config: Path | None = None,
    print_config: bool = False,
    wan: str | None = None,
    server: str | None = None,
    apply: str | bool | None = None,
    direction: Literal["up", "down", "both"] | None = None,
    law: Literal["sawtooth", "pie"] | None = None,
    shape_up: str | None = None,
    shape_down: str | None = None,
    target: Duration | None = None,
    cap: Duration | None = None,
    capacity: str | None = None,
    no_ecn: str | bool | None = None,
    interval: Duration | None = None,
    overhead: int | None = None,
    small: str | None = None,
    exempt: Iterable[str] | str | None = None,
    ipv4: str | bool | None = None,
    ipv6: str | bool | None = None,
    output: Path | None = None,
    title: str | None = None,
    max_size: str | None = None,
    duration: Duration | None = None,
    metrics: Path | None = None,
    dry_run: bool = False,
    key_file: Path | None = None,
    pin: str | None = None,
    print_plan: bool = False,
    progress: Progress = None,
) -> Answer:
    """Control the link until interrupted; a dry run without --apply.

    Args:
        config: TOML file with settings, named as the options; an option here precedes it
        print_config: Print all settings and their origin as TOML, for --config, and stop [default: false]
        wan: Interface towards the modem
        server: Machine beyond the link that runs `tailback serve`
        apply: Mark and drop packets; otherwise nothing is changed
        direction: Directions to control [default: up]
        law: Law that decides on uploads [default: sawtooth]
        shape_up: Change the rate of the HTB, TBF or CAKE at this interface instead of signalling uploads
        shape_down: Change the rate of the HTB, TBF or CAKE at this IFB interface instead of signalling
            downloads
        target: Wait to hold [default: 20 ms; 10 ms of a shaper]; the sawtooth of uploads allows up to twice as
            long on a link whose rate moves
        cap: Wait above which every packet of an upload is dropped [default: 40 ms]
        capacity: Capacity of the uplink to start with [default: learned]
        no_ecn: Drop ECN-capable packets instead of marking them
        interval: Interval between probes, 5 ms to 200 ms [default: 20 ms]
        overhead: Bytes that the link adds to each IP packet; may be negative [default: 0]
        small: IP packets of at most this size are never marked or dropped [default: 256 B]
        exempt: DSCP that is never marked or dropped; may be repeated [default: 46 and 44]
        ipv4: Use IPv4 only
        ipv6: Use IPv6 only
        output: Recording to write; a number is added if it exists [default: control.rec]
        title: Name of the recording in reports
        max_size: Thin old detail if the recording is larger than this
        duration: Stop after this time
        metrics: Write the state for Prometheus to this file once a second (textfile collector of node_exporter)
        dry_run: Decide and record, but change nothing (the default) [default: false]
        key_file: File with one line "NAME KEY", as printed by `tailback serve keys add` (or set TAILBACK_KEY to
            the line)
        pin: Public key of the server, sha256:…, as printed by `tailback serve`: control messages then travel
            inside TLS 1.3, and UDP probes are signed
        print_plan: Print the plan as JSON and stop [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("control", "run"),
        {},
        {"config": config, "print_config": print_config, "wan": wan, "server": server, "apply": apply, "direction": direction, "law": law, "shape_up": shape_up, "shape_down": shape_down, "target": target, "cap": cap, "capacity": capacity, "no_ecn": no_ecn, "interval": interval, "overhead": overhead, "small": small, "exempt": exempt, "ipv4": ipv4, "ipv6": ipv6, "output": output, "title": title, "max_size": max_size, "duration": duration, "metrics": metrics, "dry_run": dry_run, "key_file": key_file, "pin": pin, "print_plan": print_plan},
        not_json=(),
        progress=progress,
    )


def control_status(
    *,
    wan: str,
    progress: Progress = None,
) -> Answer:
    """Show the state of a run.

    Args:
        wan: Interface towards the modem
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("control", "status"),
        {},
        {"wan": wan},
        not_json=(),
        progress=progress,
    )


def control_stop(
    *,
    wan: str,
    progress: Progress = None,
) -> Answer:
    """Stop a run and restore the interface.

    Args:
        wan: Interface towards the modem
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("control", "stop"),
        {},
        {"wan": wan},
        not_json=(),
        progress=progress,
    )


def control_prove(
    *,
    wan: str,
    server: str,
    go: bool = False,
    measure: Literal["delay", "call", "goodput"] | None = None,
    load: Literal["up", "down", "both"] | None = None,
    flows: int | None = None,
    pairs: int | None = None,
    block: Duration | None = None,
    wash_out: Duration | None = None,
    budget: str | None = None,
    seed: int | None = None,
    output: Path | None = None,
    key_file: Path | None = None,
    pin: str | None = None,
    ipv4: bool = False,
    ipv6: bool = False,
    page: Path | None = None,
    run: Iterable[str] | str | None = None,
    progress: Progress = None,
) -> Answer:
    """Prove the benefit: blocks with and without control in random order.

    Args:
        wan: Interface towards the modem
        server: Machine beyond the link that runs `tailback serve`
        go: Run the blocks, instead of showing the plan [default: false]
        measure: Figure that control is to improve [default: delay]
        load: Directions that bulk transfers fill [default: up]
        flows: TCP connections in each loaded direction [default: 4]
        pairs: Pairs of blocks [default: 8]
        block: Counted part of each block [default: 30 s]
        wash_out: Loaded time before each block [default: 5 s]
        budget: Upper limit on the traffic, all blocks combined [default: 4GB]
        seed: Seed of the order of the blocks [default: 1]
        output: Directory for the recordings of the blocks [default: tailback-prove-DATE-TIME in this directory]
        key_file: File with one line "NAME KEY", as printed by `tailback serve keys add` (or set TAILBACK_KEY to
            the line)
        pin: Public key of the server, sha256:…, as printed by `tailback serve`: control messages then travel
            inside TLS 1.3, and UDP probes are signed
        ipv4: Use IPv4 only [default: false]
        ipv6: Use IPv6 only [default: false]
        page: Write an HTML page with the plots to this file, too
        run: Options of `tailback control run`
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("control", "prove"),
        {},
        {"wan": wan, "server": server, "go": go, "measure": measure, "load": load, "flows": flows, "pairs": pairs, "block": block, "wash_out": wash_out, "budget": budget, "seed": seed, "output": output, "key_file": key_file, "pin": pin, "ipv4": ipv4, "ipv6": ipv6, "page": page, "run": run},
        not_json=(),
        progress=progress,
    )


def emulate(
    *links: str,
    command: Iterable[str] | str | None = None,
    set: Pairs | None = None,
    far: str | None = None,
    routed: bool = False,
    seed: int | None = None,
    output: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Run any program behind an emulated link.

    Args:
        links: Links by name (see `tailback list links`) or TOML file, near end first
        command: Program to run behind the link, and its arguments
        set: Change one value of every link, such as up.queue=codel, or of one link, such as hop2.up.queue=codel
        far: Shell command to run at the far end at the same time
        routed: Put a router between one link and the next: each link is a hop of its own [default: false]
        seed: Seed of losses and jitter: the same seed gives the same losses and jitter [default: 1]
        output: Record the queues of the links: a recording for `analyse` and `report`
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("emulate",),
        {"links": links},
        {"command": command, "set": set, "far": far, "routed": routed, "seed": seed, "output": output},
        not_json=(),
        progress=progress,
    )


def analyse(
    *recordings: Path,
    markdown: bool = False,
    csv: bool = False,
    statistics: bool = False,
    full: bool = False,
    from_: Time | None = None,
    to: Time | None = None,
    zone: str | None = None,
    window: Duration | None = None,
    sliding: Duration | None = None,
    span: Iterable[str] | str | None = None,
    exclude: Path | None = None,
    exclude_faults: bool = False,
    limits: Iterable[float] | float | None = None,
    services: Iterable[str] | str | None = None,
    fail: bool = False,
    together: bool = False,
    hidden_queue: bool = False,
    queue: bool = False,
    patterns: bool = False,
    paths: bool = False,
    every: Duration | None = None,
    tables: Path | None = None,
    rate_up: str | None = None,
    rate_down: str | None = None,
    target: str | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> Answer:
    """Print the answer or the statistics of recordings, even of incomplete ones.

    Args:
        recordings: Recordings to analyse
        markdown: Print the tables as Markdown [default: false]
        csv: Print CSV: statistics as one row a figure with plain numbers, other answers as their tables
            [default: false]
        statistics: Print statistics, even of a recording of `tailback test` [default: false]
        full: Print all tables of statistics, instead of one screen [default: false]
        from_: Begin of the time range, such as 2026-05-16T09:17 or 2026-05-16T07:17:20Z
        to: End of the time range
        zone: Time zone of days, and of times given without one, such as Europe/Oslo [default: this host's]
        window: Also give figures for each window of this length, such as 10min
        sliding: Length of the sliding window [default: 10min, or a tenth of a short recording]
        span: Also give figures for this span; may be repeated
        exclude: File of times to exclude: `[[exclude]]` entries with from, to and reason
        exclude_faults: Exclude times in which the base line shows a fault of the instrument [default: false]
        limits: Delay limits for which the reliability is given, in ms
        services: Services to check the link against: `built-in` (smart grid, power automation), or a file of
            `[[table]]` with `[[table.service]]`
        fail: Exit with 1 if a service fails, in the recording or any part of it. If no service is asked for: if
            calls, games, video, web or work fail [default: false]
        together: Treat the recordings, or the targets of one, as redundant uplinks and report their combined
            availability [default: false]
        hidden_queue: Estimate the modem's hidden queue from bytes sent and one RTT sample per interval
            [default: false]
        queue: Estimate the queue of any recording: discipline, size in ms and bytes, bandwidth-delay product
            and their ratio [default: false]
        patterns: Look for patterns of radio and satellite links: reconfiguration each 15 s, scheduling grants,
            DRX cycles, handovers [default: false]
        paths: Look for changes of the route in many recordings of `probe path`, and tell them from shared load
            [default: false]
        every: Interval between RTT samples, with --hidden-queue [default: 1s]
        tables: Print the tables that this file lays out, with published values beside the computed ones
        rate_up: Uplink rate, to find the times at which the uplink was full [default: estimated, if possible]
        rate_down: Downlink rate, to find the times at which the downlink was full [default: estimated, if
            possible]
        target: Analyse this target only
        threads: Cores to use [default: all]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("analyse",),
        {"recordings": recordings},
        {"markdown": markdown, "csv": csv, "statistics": statistics, "full": full, "from_": from_, "to": to, "zone": zone, "window": window, "sliding": sliding, "span": span, "exclude": exclude, "exclude_faults": exclude_faults, "limits": limits, "services": services, "fail": fail, "together": together, "hidden_queue": hidden_queue, "queue": queue, "patterns": patterns, "paths": paths, "every": every, "tables": tables, "rate_up": rate_up, "rate_down": rate_down, "target": target, "threads": threads},
        not_json=("csv", "markdown", "tables"),
        progress=progress,
    )


def compare(
    *recordings: str,
    output: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Compare recordings: before and after, networks, media and rounds.

    Args:
        recordings: Recordings to compare, or [MEDIUM/]NAME=RECORDING,RECORDING… for rounds; the first is the
            reference
        output: Page (.html) to write, with the tables and the distributions of all networks in one plot a phase
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("compare",),
        {"recordings": recordings},
        {"output": output},
        not_json=(),
        progress=progress,
    )


def report(
    *recordings: Path,
    plot: Literal["rtt", "cdf", "smoothed", "bounds", "smoke", "hosts", "daily", "heat", "availability", "host", "modem", "radio", "queue", "window", "signals", "phase", "film", "control", "sequence", "in-flight", "throughput"] | None = None,
    connection: str | None = None,
    from_: Time | None = None,
    to: Time | None = None,
    zone: str | None = None,
    target: str | None = None,
    interface: str | None = None,
    size: str | None = None,
    theme: Literal["light", "dark"] | None = None,
    output: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Draw recordings: one HTML page, or single plots as SVG, PDF or PNG.

    Args:
        recordings: Recordings to plot
        plot: Plot to draw, for SVG and PNG [default: rtt]
        connection: Connection of a capture: its number, or both ends as they are listed, 'A:PORT>B:PORT'
            [default: the one with the most data]
        from_: Begin of the time range, such as 2026-05-16T09:17 or 2026-05-16T09:17:20Z [default: the
            recording's begin]
        to: End of the time range [default: the recording's end]
        zone: Time zone of days and hours, and of times given without one, such as Europe/Oslo [default: this
            host's]
        target: Target whose round trips are drawn, if several were probed [default: udp, or the one probed
            most]
        interface: Interface whose traffic is drawn [default: the interface that carried most]
        size: Width of an SVG or PDF, in mm, cm, in, pt or px; the height follows
        theme: Colours of an SVG, PDF or PNG [default: light]
        output: File to write [default: report.html in the recording, comparison.html in this directory for
            several; with --plot, PLOT.svg there]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("report",),
        {"recordings": recordings},
        {"plot": plot, "connection": connection, "from_": from_, "to": to, "zone": zone, "target": target, "interface": interface, "size": size, "theme": theme, "output": output},
        not_json=(),
        progress=progress,
    )


def import_(
    *files: Path,
    output: Path | None = None,
    format: str | None = None,
    zone: str | None = None,
    start: Time | None = None,
    interval: Time | None = None,
    rate_unit: Literal["bit", "kbit", "mbit"] | None = None,
    title: str | None = None,
    progress: Progress = None,
) -> Answer:
    """Make a recording from other tools' files: irtt, flent, fping, ping, SmokePing, dstat, RIPE Atlas, qlog, and the delay and traffic monitors' CSV.

    Args:
        files: Files to import, in the order of time if one continues another
        output: Recording to write [default: the first file's name, ending in .rec]
        format: Format of the files [default: found from their content]
        zone: Time zone of local times in the files, such as Europe/Oslo [default: this host's]
        start: Time of the first probe, for ping and fping without -D, such as 2026-05-04T15:55:00Z [default:
            time of the file's last change]
        interval: Interval between probes, for ping and fping without -D [default: as the text says, or 1s]
        rate_unit: Unit of the traffic monitor's rates: its flag -p [default: kbit]
        title: Name of the recording in reports, such as "home ADSL" [default: ]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("import",),
        {"files": files},
        {"output": output, "format": format, "zone": zone, "start": start, "interval": interval, "rate_unit": rate_unit, "title": title},
        not_json=(),
        progress=progress,
    )


def export(
    recording: Path,
    *,
    format: str | None = None,
    output: Path | None = None,
    tables: Iterable[str] | str | None = None,
    target: str | None = None,
    progress: Progress = None,
) -> Answer:
    """Write a recording in another format: CSV, JSON, Parquet, irtt, flent, RIPE Atlas, OpenMetrics, qlog, OONI.

    Args:
        recording: Recording to export
        format: Format: csv, json, parquet, irtt, flent, atlas, openmetrics, qlog or ooni [default: csv]
        output: Directory of tables, or file, to write [default: the name of the recording with the format's
            ending]
        tables: Tables to write, such as delay,flow [default: all]
        target: Target of the probes to write [default: all; irtt: the only one]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("export",),
        {"recording": recording},
        {"format": format, "output": output, "tables": tables, "target": target},
        not_json=(),
        progress=progress,
    )


def twin(
    recording: Path,
    *,
    link: str | None = None,
    set: Pairs | None = None,
    output: Path | None = None,
    export: Path | None = None,
    seed: int | None = None,
    threads: int | None = None,
    page: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Fit a model of a link to the recording of a test, and check the model.

    Args:
        recording: Recording of `tailback test`
        link: Link to check against the recording, instead of fitting one: a name (see `tailback list links`) or
            TOML file
        set: Change one value of that link, such as up.queue=codel
        output: Link file to write [default: twin.toml in the recording]
        export: Write the link for mahimahi, TheaterQ, Rattan and Linux tc into this directory
        seed: First seed of the simulated runs [default: 1]
        threads: Cores to use [default: all]
        page: Write an HTML page with the plots to this file, too
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("twin",),
        {"recording": recording},
        {"link": link, "set": set, "output": output, "export": export, "seed": seed, "threads": threads, "page": page},
        not_json=(),
        progress=progress,
    )


def whatif(
    of: str,
    *,
    set: Pairs | None = None,
    cure: Iterable[str] | str | None = None,
    for_: Literal["calls", "gaming", "web", "bulk", "all"] | None = None,
    load: Literal["up", "down", "both", "evening", "work"] | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    threads: int | None = None,
    anyway: bool = False,
    page: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Try cures on the twin of a link, and rank them.

    Args:
        of: Recording of `tailback test`, or a link: a name (see `tailback list links`) or TOML file
        set: Change one value of the link, such as up.queue=codel
        cure: Cure to try; without any, the usual ones
        for_: Use that ranks the cures [default: all]
        load: Directions that bulk transfers fill, or the traffic of a household: evening, work [default: both]
        seeds: Number of seeds of each cure [default: 30]
        seed: First seed [default: 1]
        threads: Cores to use [default: all]
        anyway: Ask a twin that its recording rejects [default: false]
        page: Write an HTML page with the plots to this file, too
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("whatif",),
        {"of": of},
        {"set": set, "cure": cure, "for_": for_, "load": load, "seeds": seeds, "seed": seed, "threads": threads, "anyway": anyway, "page": page},
        not_json=(),
        progress=progress,
    )


def prove(
    of: str,
    *,
    set: Pairs | None = None,
    cure: str | None = None,
    on: str | None = None,
    off: str | None = None,
    go: bool = False,
    wash_out: Duration | None = None,
    flows: int | None = None,
    budget: str | None = None,
    key_file: Path | None = None,
    pin: str | None = None,
    ipv4: bool = False,
    ipv6: bool = False,
    measure: Literal["delay", "call", "page", "goodput"] | None = None,
    load: Literal["up", "down", "both", "evening", "work"] | None = None,
    pairs: int | None = None,
    block: Duration | None = None,
    virtual: bool = False,
    seed: int | None = None,
    threads: int | None = None,
    anyway: bool = False,
    output: Path | None = None,
    page: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Prove a cure: on and off in random blocks, with a test of the difference.

    Args:
        of: Recording of `tailback test`, or a link: a name (see `tailback list links`) or TOML file; with --on,
            a server
        set: Change one value of the link, such as up.queue=codel
        cure: Cure as in `tailback whatif`, or "best" for the best of the usual ones
        on: Shell command that switches the cure on; with a server
        off: Shell command that switches the cure off
        go: Run the commands and fill the link, instead of showing the plan [default: false]
        wash_out: Loaded time before each block on a real link [default: 5 s]
        flows: TCP connections in each loaded direction of a real link [default: 4]
        budget: Upper limit on the traffic over a real link, all blocks combined [default: 4GB]
        key_file: File with one line "NAME KEY", as printed by `tailback serve keys add` (or set TAILBACK_KEY to
            the line)
        pin: Public key of the server, sha256:…, as printed by `tailback serve`: control messages then travel
            inside TLS 1.3, and UDP probes are signed
        ipv4: Use IPv4 only [default: false]
        ipv6: Use IPv6 only [default: false]
        measure: Figure that the cure is to improve [default: delay]
        load: Directions that bulk transfers fill, or the traffic of a household: evening, work [default: both]
        pairs: Pairs of blocks [default: 8]
        block: Counted part of each block [default: 10 s; by the link's rate in virtual time]
        virtual: Simulate the blocks in virtual time: needs no privileges, takes seconds [default: false]
        seed: Seed of the order of the blocks, and of simulated ones [default: 1]
        threads: Cores to use in virtual time [default: all]
        anyway: Ask a twin that its recording rejects [default: false]
        output: Directory for the recordings of the blocks [default: tailback-prove-DATE-TIME in this directory]
        page: Write an HTML page with the plots to this file, too
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("prove",),
        {"of": of},
        {"set": set, "cure": cure, "on": on, "off": off, "go": go, "wash_out": wash_out, "flows": flows, "budget": budget, "key_file": key_file, "pin": pin, "ipv4": ipv4, "ipv6": ipv6, "measure": measure, "load": load, "pairs": pairs, "block": block, "virtual": virtual, "seed": seed, "threads": threads, "anyway": anyway, "output": output, "page": page},
        not_json=(),
        progress=progress,
    )


def sim(
    scenario: Path,
    *,
    set: Pairs | None = None,
    sweep: Pairs | None = None,
    seeds: int | None = None,
    print: bool = False,
    output: Path | None = None,
    pcap: Pairs | None = None,
    snaplen: int | None = None,
    threads: int | None = None,
    keep: Path | None = None,
    shard: str | None = None,
    runs: Path | None = None,
    differences: bool = False,
    progress: Progress = None,
) -> Answer:
    """Simulate a scenario, packet by packet, in virtual time.

    Args:
        scenario: Scenario as a TOML file
        set: Change one value, such as link.rate='2 Mbit/s' or flow.0.tcp.controller=reno
        sweep: Run with each of these values, such as link.queue=codel,pie (separated by ; if values contain
            commas)
        seeds: Number of seeds, starting at the scenario's; figures get 95 % confidence intervals [default: 1]
        print: Print the whole scenario with the origin of each value, and run nothing [default: false]
        output: Write a recording; with a sweep, a directory with one recording for each value
        pcap: Capture the packets at the entry of a link, for Wireshark: packets that enter the link, before its
            queue, and packets that leave the link in the other direction. LINK is the name of a link or a host;
            --print shows them
        snaplen: Bytes of each packet to capture [default: 128]
        threads: Cores to use [default: all]
        keep: Directory of finished runs: each run is kept there as soon as it ends, and a kept run is not made
            again, so that a sweep can be interrupted and continued
        shard: Make only this part of the runs, such as 2/8: several processes or machines share a sweep. The
            same command without --shard then prints the figures of all
        runs: Write the figures of every run as numbers, one row a run: CSV, or Parquet if the name ends in
            .parquet
        differences: Show the differences from the first value of the sweep, each seed compared with itself,
            instead of the figures [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("sim",),
        {"scenario": scenario},
        {"set": set, "sweep": sweep, "seeds": seeds, "print": print, "output": output, "pcap": pcap, "snaplen": snaplen, "threads": threads, "keep": keep, "shard": shard, "runs": runs, "differences": differences},
        not_json=("shard",),
        progress=progress,
    )


def model(
    name: str | None = None,
    *parameters: Pairs,
    traffic: Path | None = None,
    plot: Pairs | None = None,
    show: Iterable[str] | str | None = None,
    output: Path | None = None,
    seeds: int | None = None,
    progress: Progress = None,
) -> Answer:
    """Evaluate a formula: buffer sizes, queues, TCP throughput, reliability.

    Args:
        name: Name of the formula, or a TOML file with a section [calculate]
        parameters: Parameters of the formula, with their units; keys of the file that change
        traffic: Use the traffic of a capture (pcap, pcapng, gzip, zstd), or of the output of `tailback trace
            --traffic --json`
        plot: Plot the figures against this parameter, over a range of its values
        show: Figures to plot, separated by commas [default: the first except the load]
        output: SVG file to write the plot to
        seeds: Number of seeds of a file's calculation; figures get 95 % confidence intervals [default: 1]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("model",),
        {"name": name, "parameters": parameters},
        {"traffic": traffic, "plot": plot, "show": show, "output": output, "seeds": seeds},
        not_json=(),
        progress=progress,
    )


def trace(
    *files: Path,
    top: int | None = None,
    each: bool = False,
    keep_copies: bool = False,
    plots: Path | None = None,
    connection: str | None = None,
    annotate: Path | None = None,
    output: Path | None = None,
    csv: Path | None = None,
    flows: bool = False,
    traffic: bool = False,
    step: Duration | None = None,
    home: Iterable[str] | str | None = None,
    far: Iterable[Path] | Path | None = None,
    live: str | None = None,
    duration: Duration | None = None,
    write: Path | None = None,
    snaplen: int | None = None,
    progress: Progress = None,
) -> Answer:
    """Analyse a packet capture: rates, retransmissions and their causes, round trips, breaks.

    Args:
        files: Captures to read; several are read in order, as parts of one
        top: Number of directions or flows to show, those with the most data first [default: 20]
        each: Read each capture as a run of its own: mean and standard deviation of each figure, by directory.
            Directories stand for the captures in them. With --traffic: the laws of each capture, by the hour
            and by TCP's share [default: false]
        keep_copies: Count packets that were captured twice (on two interfaces, by a mirror port) as two
            [default: false]
        plots: Directory to write plots to, as SVG: of one connection; with --traffic or --far, of all packets
        connection: Show one connection with each of its events, and plot it with --plots: its number, or both
            ends as they are listed, 'A:PORT>B:PORT' [default of --plots: the one with the most data]
        annotate: Write a copy as pcapng, with a remark for Wireshark beside each packet that shows a problem
        output: Keep every connection and packet as a recording (Parquet tables), for `tailback analyse` and
            `tailback report`
        csv: Directory to write the tables to, as CSV
        flows: List every flow instead of TCP connections: DSCP, ECN, marks that receivers report, and QUIC with
            version, server name and the round trips of its spin bit [default: false]
        traffic: Describe the traffic as a whole: arrival rates, sizes and gaps of TCP, UDP and both, the
            distributions that fit them, the Hurst parameter, traffic by service and server, and unsolicited
            packets [default: false]
        step: Step of time for counting arrivals, such as 10ms [default: ten packets on average]
        home: Local addresses: packets from elsewhere that these did not ask for are unsolicited [default: the
            one address that is in nearly all packets, or the private ones]
        far: Capture of the same traffic at the far end: both are matched packet by packet. Reports losses
            between them, delays in each direction, and changes to packets. Repeat for the parts of one capture
        live: Capture packets on this interface until Ctrl-C, or for --duration; needs root or CAP_NET_RAW
        duration: Stop after this time, such as 10min
        write: Write the captured packets to this file as well, as pcapng
        snaplen: Bytes of each packet to read and keep: 192 hold the headers, 2048 also the names of servers
            [default: 192, with --traffic or --flows 2048]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("trace",),
        {"files": files},
        {"top": top, "each": each, "keep_copies": keep_copies, "plots": plots, "connection": connection, "annotate": annotate, "output": output, "csv": csv, "flows": flows, "traffic": traffic, "step": step, "home": home, "far": far, "live": live, "duration": duration, "write": write, "snaplen": snaplen},
        not_json=(),
        progress=progress,
    )


def list_(
    what: Literal["links", "disciplines", "controllers", "probes", "sources"],
    *,
    progress: Progress = None,
) -> Answer:
    """List links, disciplines, controllers, sources or experiments.

    Args:
        what:
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("list",),
        {"what": what},
        {},
        not_json=(),
        progress=progress,
    )


def run(
    plan: Path,
    *,
    output: Path | None = None,
    key_file: Path | None = None,
    pin: str | None = None,
    print_plan: bool = False,
    progress: Progress = None,
) -> Answer:
    """Run a plan, or repeat the run that made a recording.

    Args:
        plan: Plan as a JSON file, or a recording whose plan is run again
        output: Recording or report to write [default: as the plan says]
        key_file: File with one line "NAME KEY", as printed by `tailback serve keys add` (or set TAILBACK_KEY to
            the line)
        pin: Public key of the server, sha256:…, as printed by `tailback serve`: control messages then travel
            inside TLS 1.3, and UDP probes are signed
        print_plan: Print the plan as JSON and stop [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("run",),
        {"plan": plan},
        {"output": output, "key_file": key_file, "pin": pin, "print_plan": print_plan},
        not_json=(),
        progress=progress,
    )


def completions(
    shell: Literal["bash", "elvish", "fish", "powershell", "zsh"],
    *,
    progress: Progress = None,
) -> Answer:
    """Print completions for a shell.

    Args:
        shell: Shell that reads the script
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("completions",),
        {"shell": shell},
        {},
        not_json=None,
        progress=progress,
    )


def man(
    directory: Path,
    *,
    progress: Progress = None,
) -> Answer:
    """Write man pages of all verbs to a directory.

    Args:
        directory: Directory for the pages; it is created if it is missing
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("man",),
        {"directory": directory},
        {},
        not_json=None,
        progress=progress,
    )


def hub(
    *,
    data: Path | None = None,
    listen: str | None = None,
    quota_per_point: str | None = None,
    quota: str | None = None,
    shared: str | None = None,
    shared_each: str | None = None,
    web: str | None = None,
    web_token: str | None = None,
    public: str | None = None,
    public_by: str | None = None,
    clickhouse: str | None = None,
    on_change: str | None = None,
    webhook: str | None = None,
    mail: str | None = None,
    progress: Progress = None,
) -> Answer:
    """Run the hub of a fleet: invite points, hand out the plan, keep recordings.

    Args:
        data: Directory of the hub [default: hub]
        listen: Address and port to listen on [default: 127.0.0.1:8443]
        quota_per_point: Upper limit on the recordings kept for one point; more stay at the point
        quota: Upper limit on the recordings kept for all points
        shared: Take shared recordings from holders of a code of `invite --share`, up to this size in all
        shared_each: Size of the largest shared recording [default: 20 MB]
        web: Address on which to serve the dashboard, such as 127.0.0.1:8118: the state of all points and their
            latest recordings
        web_token: Token that readers of --web need [default: none on a loopback address, elsewhere a random
            one, which is printed]
        public: Address on which to show groups of points to anybody, without a token: nothing about a single
            point, and no group of fewer than five
        public_by: Label that groups the points for --public, such as provider
        clickhouse: ClickHouse server that takes the rows of all recordings, too, such as
            http://127.0.0.1:8123/tailback; the user's password is in $TAILBACK_CLICKHOUSE_PASSWORD
        on_change: Command to run when a point gets into trouble or is well again, and when a release halts;
            $TAILBACK_POINT, $TAILBACK_STATE and $TAILBACK_WHY say which, what and why
        webhook: Address to which the same is posted as JSON, with curl(1)
        mail: Mail address to which the same is sent, with sendmail(8)
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("hub",),
        {},
        {"data": data, "listen": listen, "quota_per_point": quota_per_point, "quota": quota, "shared": shared, "shared_each": shared_each, "web": web, "web_token": web_token, "public": public, "public_by": public_by, "clickhouse": clickhouse, "on_change": on_change, "webhook": webhook, "mail": mail},
        not_json=(),
        progress=progress,
    )


def hub_invite(
    *,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    name: str | None = None,
    share: bool = False,
    progress: Progress = None,
) -> Answer:
    """Print a one-time code with which a new point joins, or one recording is shared, within seven days.

    Args:
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        name: Name of the point: lower-case letters, digits and -
        share: The code is for `tailback share`: it takes one recording, and no point joins with it [default:
            false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("hub", "invite"),
        {},
        {"data": data, "hub": hub, "token": token, "name": name, "share": share},
        not_json=(),
        progress=progress,
    )


def hub_operator(
    *,
    name: str,
    data: Path | None = None,
    end: bool = False,
    progress: Progress = None,
) -> Answer:
    """Print a token with which a person operates the fleet from another machine; each has their own.

    Args:
        name: Name of the person: lower-case letters, digits and -
        data: Directory of the hub [default: hub]
        end: End this person's access instead [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("hub", "operator"),
        {},
        {"name": name, "data": data, "end": end},
        not_json=(),
        progress=progress,
    )


def hub_reader(
    *,
    name: str,
    data: Path | None = None,
    only: Pairs | None = None,
    end: bool = False,
    progress: Progress = None,
) -> Answer:
    """Print a token with which a person reads the dashboard; each has their own.

    Args:
        name: Name of the person: lower-case letters, digits and -
        data: Directory of the hub [default: hub]
        only: Show the points with this label alone, such as provider=acme [default: all points]
        end: End this person's access instead [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("hub", "reader"),
        {},
        {"name": name, "data": data, "only": only, "end": end},
        not_json=(),
        progress=progress,
    )


def hub_revoke(
    *,
    name: str,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """End the access of a point; its recordings stay.

    Args:
        name: Name of the point
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("hub", "revoke"),
        {},
        {"name": name, "data": data, "hub": hub, "token": token},
        not_json=None,
        progress=progress,
    )


def hub_forget(
    *,
    name: str,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """End the access of a point and delete all of its recordings.

    Args:
        name: Name of the point
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("hub", "forget"),
        {},
        {"name": name, "data": data, "hub": hub, "token": token},
        not_json=None,
        progress=progress,
    )


def agent(
    *,
    data: Path | None = None,
    join: Iterable[str] | str | None = None,
    agree: bool = False,
    release_key: str | None = None,
    withdraw: bool = False,
    progress: Progress = None,
) -> Answer:
    """Run a measuring point of a fleet: follow the hub's plan, upload recordings.

    Args:
        data: Directory of the agent: its key, its plan and the recordings that are not uploaded yet [default:
            agent]
        join: Hub to join, and the one-time code; needed once
        agree: Agree to what a point sends, without the question; the text is shown in any case [default: false]
        release_key: Key of the releases that may replace this program, as minisign prints it or its .pub file;
            `none` forbids them. It is kept
        withdraw: Delete at the hub what this point has sent, and end its access [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("agent",),
        {},
        {"data": data, "join": join, "agree": agree, "release_key": release_key, "withdraw": withdraw},
        not_json=("withdraw",),
        progress=progress,
    )


def fleet_status(
    *,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Print the state of each point, judged by the data that came back.

    Args:
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("fleet", "status"),
        {},
        {"data": data, "hub": hub, "token": token},
        not_json=(),
        progress=progress,
    )


def fleet_log(
    *,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Print who changed what: invitations, plans, releases, labels, withdrawals.

    Args:
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("fleet", "log"),
        {},
        {"data": data, "hub": hub, "token": token},
        not_json=(),
        progress=progress,
    )


def fleet_plan(
    file: Path,
    *,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Check, sign and publish a plan; points fetch it with their next report.

    Args:
        file: Plan as TOML; docs/book/fleet.md shows one
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("fleet", "plan"),
        {"file": file},
        {"data": data, "hub": hub, "token": token},
        not_json=None,
        progress=progress,
    )


def fleet_run_now(
    measurement: str,
    *,
    name: Iterable[str] | str,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Ask points for a run of a measurement now, out of its turn; they hear of it with their next report.

    Args:
        measurement: Measurement of the plan, such as load
        name: Names of the points, such as village-17,village-18
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("fleet", "run-now"),
        {"measurement": measurement},
        {"name": name, "data": data, "hub": hub, "token": token},
        not_json=(),
        progress=progress,
    )


def fleet_upgrade(
    *files: Path,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    key: str | None = None,
    stages: Iterable[int] | int | None = None,
    stage_time: Duration | None = None,
    halt: bool = False,
    resume: bool = False,
    progress: Progress = None,
) -> Answer:
    """Hand out a release: signed programs that replace those of the points, a few points first.

    Args:
        files: Programs, one version for one processor or more; on the hub's machine only
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        key: Public key that signs releases, as minisign prints it or its .pub file; points that join from then
            on are told. On the hub's machine only
        stages: Shares of the points, per cent, to which it goes one after another [default: 1,10,100]
        stage_time: Shortest time of a share [default: 1 h]
        halt: Halt the newest release: no further point gets it [default: false]
        resume: Let the newest release go on; points that returned from it are left out [default: false]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("fleet", "upgrade"),
        {"files": files},
        {"data": data, "hub": hub, "token": token, "key": key, "stages": stages, "stage_time": stage_time, "halt": halt, "resume": resume},
        not_json=None,
        progress=progress,
    )


def fleet_report(
    *,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    by: str | None = None,
    point: str | None = None,
    from_: str | None = None,
    to: str | None = None,
    output: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Compare the points: delays, losses and tests of each, and of groups with the same label.

    Args:
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        by: Label that groups the points, such as provider
        point: Follow this point over its days instead: delays of each day and weekday, its tests
        from_: First day (UTC), such as 2026-11-01
        to: Last day (UTC)
        output: Page (.html) to write, with the tables and the distributions of the round trips
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("fleet", "report"),
        {},
        {"data": data, "hub": hub, "token": token, "by": by, "point": point, "from_": from_, "to": to, "output": output},
        not_json=(),
        progress=progress,
    )


def fleet_label(
    *labels: Pairs,
    name: str,
    data: Path | None = None,
    hub: str | None = None,
    token: Path | None = None,
    progress: Progress = None,
) -> Answer:
    """Set labels of a point: facts by which reports group points, and the rates that its provider promises.

    Args:
        labels: Labels, such as provider=Acme technology=lte down='20 Mbit/s' up='2 Mbit/s'; KEY= removes one
        name: Name of the point
        data: Directory of the hub [default: hub]
        hub: Address of a hub on another machine, such as https://hub.example:8443, instead of its directory
        token: File with the token that `tailback hub operator` printed there [default: the token in
            $TAILBACK_HUB_TOKEN]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("fleet", "label"),
        {"labels": labels},
        {"name": name, "data": data, "hub": hub, "token": token},
        not_json=None,
        progress=progress,
    )


def share(
    recording: Path | None = None,
    *,
    hub: Iterable[str] | str | None = None,
    dry_run: bool = False,
    consent: str | None = None,
    withdraw: Iterable[str] | str | None = None,
    progress: Progress = None,
) -> Answer:
    """Send a recording to a hub, which makes a report page with an address of its own.

    Args:
        recording: Recording to send
        hub: Hub that makes the page, and the one-time code
        dry_run: Show what would be sent, and send nothing [default: false]
        consent: Agree to this version of the hub's text, without the question
        withdraw: Delete a shared recording and its page
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    return _call(
        ("share",),
        {"recording": recording},
        {"hub": hub, "dry_run": dry_run, "consent": consent, "withdraw": withdraw},
        not_json=(),
        progress=progress,
    )
