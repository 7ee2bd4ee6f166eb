//! Scripts of the advice, run by a shell with stand-ins for the system's tools: they change nothing that somebody else has
//! set, may be run twice, and are undone.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const LINUX: &str = include_str!("../src/advice/shaper-linux.sh");
const OPENWRT: &str = include_str!("../src/advice/shaper-openwrt.sh");
const HOST: &str = include_str!("../src/advice/host-linux.sh");

/// `tc` with a file for the root queue and one for the ingress of each device; CAKE can be missing.
const TC: &str = r#"#!/bin/sh
dev=$(echo " $*" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
case "$1 $2" in
"qdisc show")
    [ -z "$dev" ] || [ ! -e "$FAKE/root.$dev" ] || cat "$FAKE/root.$dev"
    case " $* " in *" root "*) ;; *) [ ! -e "$FAKE/ingress.$dev" ] || echo "qdisc ingress ffff: parent ffff:fff1" ;; esac ;;
"qdisc replace")
    case " $* " in *" cake "*) [ ! -e "$FAKE/no-cake" ] || { echo unknown >&2; exit 2; } ;; esac
    case " $* " in *" root "*) echo "$*" | sed 's/.*handle \([^ ]*\) \([^ ]*\)\(.*\)/qdisc \2 \1 root\3/' >"$FAKE/root.$dev" ;;
        *) echo "$*" >>"$FAKE/root.$dev" ;; esac ;;
"class replace") echo "$*" >>"$FAKE/root.$dev" ;;
"qdisc add") touch "$FAKE/ingress.$dev" ;;
"filter add") [ ! -e "$FAKE/no-filter" ] || { echo unknown >&2; exit 2; } ;;
"qdisc del") case " $* " in *" ingress"*) rm "$FAKE/ingress.$dev" ;; *) echo "qdisc fq_codel 0: root" >"$FAKE/root.$dev" ;; esac ;;
*) echo "tc $*: not known here" >&2; exit 1 ;;
esac
"#;

const IP: &str = r#"#!/bin/sh
case "$1 $2" in
"link show") [ -e "$FAKE/link.$4" ] ;;
"link add") [ ! -e "$FAKE/link.$3" ] && touch "$FAKE/link.$3" ;;
"link set") [ -e "$FAKE/link.$3" ] ;;
"link del") rm "$FAKE/link.$3"; rm -f "$FAKE/root.$3" ;;
*) exit 1 ;;
esac
"#;

const SYSTEMCTL: &str = "#!/bin/sh\necho \"$*\" >>\"$FAKE/systemctl\"\n";

/// `uci` on one flat file of lines `key=value`.
const UCI: &str = r#"#!/bin/sh
[ "$1" != -q ] || shift
f=$FAKE/etc/config/sqm
case "$1" in
show) cat "$f" ;;
get) awk -v k="$2=" 'index($0, k) == 1 { print substr($0, length(k) + 1); n = 1 } END { exit !n }' "$f" ;;
set) key=${2%%=*}; grep -vF "$key=" "$f" >"$f.new" || true; mv "$f.new" "$f"; echo "$2" >>"$f" ;;
delete) grep -q "^$2=" "$f" || exit 1; grep -v "^$2[.=]" "$f" >"$f.new" || true; mv "$f.new" "$f" ;;
commit) ;;
*) exit 1 ;;
esac
"#;

/// `sysctl` with a file for each key.
const SYSCTL: &str = r#"#!/bin/sh
case "$1" in
-n) cat "$FAKE/sysctl/$2" ;;
-p) sed 's/ *= */=/' "$2" | while IFS== read -r k v; do echo "$v" >"$FAKE/sysctl/$k"; done ;;
*) exit 1 ;;
esac
"#;

struct System(PathBuf);

impl Drop for System {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl System {
    fn new(name: &str) -> System {
        let dir =
            std::env::temp_dir().join(format!("tailback-scripts-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for folder in [
            "bin",
            "etc/config",
            "etc/init.d",
            "etc/systemd/system",
            "run/systemd/system",
            "sysctl",
        ] {
            fs::create_dir_all(dir.join(folder)).expect("a directory");
        }
        let system = System(dir);
        let nothing = "#!/bin/sh\n";
        let tools = [
            ("tc", TC),
            ("ip", IP),
            ("systemctl", SYSTEMCTL),
            ("uci", UCI),
            ("sysctl", SYSCTL),
            ("modprobe", nothing),
        ];
        for (tool, text) in tools {
            system.executable(&format!("bin/{tool}"), text);
        }
        system.executable("etc/init.d/sqm", nothing);
        system
    }

    fn executable(&self, path: &str, text: &str) {
        fs::write(self.0.join(path), text).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(self.0.join(path), mode).expect("ours");
    }

    fn put(&self, path: &str, text: &str) {
        fs::write(self.0.join(path), text).expect("a file");
    }

    fn has(&self, path: &str) -> bool {
        self.0.join(path).exists()
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }

    /// Runs a script with the tools of this system.
    fn run(&self, script: &str, args: &[&str]) -> Output {
        let file = self.0.join("script.sh");
        fs::write(&file, script).expect("a file");
        self.sh(&file, args)
    }

    fn sh(&self, file: &Path, args: &[&str]) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("sh")
            .arg(file)
            .args(args)
            .env("PATH", format!("{}:{path}", self.0.join("bin").display()))
            .env("FAKE", &self.0)
            .env("TAILBACK_ROOT", &self.0)
            .output()
            .expect("a shell")
    }

    #[track_caller]
    fn works(&self, script: &str, args: &[&str]) {
        let out = self.run(script, args);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {told}");
    }

    #[track_caller]
    fn refuses(&self, script: &str, args: &[&str], why: &str) {
        let out = self.run(script, args);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && told.contains(why),
            "{args:?}: {told}"
        );
    }

    /// All files, with their texts, but the script itself and the log of systemctl.
    fn state(&self) -> Vec<(PathBuf, String)> {
        let (mut open, mut all) = (vec![self.0.clone()], Vec::new());
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    open.push(path);
                } else if !path.ends_with("script.sh") && !path.ends_with("systemctl") {
                    let text = fs::read_to_string(&path).expect("text");
                    all.push((path, text));
                }
            }
        }
        all.sort();
        all
    }
}

fn shaper(text: &str, up: u64, down: u64) -> String {
    text.replace("@UP_KBIT@", &up.to_string())
        .replace("@DOWN_KBIT@", &down.to_string())
        .replace("@ATM_BYTES@", "1749")
        .replace("@PTM_BYTES@", "1554")
}

fn linux(name: &str) -> System {
    let system = System::new(name);
    system.put("link.wan", "");
    system.put("root.wan", "qdisc fq_codel 0: root\n");
    system
}

#[test]
fn the_linux_shaper_runs_twice_is_undone_and_is_there_after_a_reboot() {
    let system = linux("twice");
    let before = system.state();
    let script = shaper(LINUX, 665, 7200);
    system.works(&script, &["on", "wan", "adsl"]);
    let once = system.state();
    let up = system.text("root.wan");
    assert!(
        up.contains("cake 7a1b: root bandwidth 775kbit overhead 44 atm nat"),
        "{up}"
    );
    let down = system.text("root.ifb-tailback");
    assert!(
        down.contains("bandwidth 8395kbit overhead 44 atm nat ingress"),
        "{down}"
    );
    assert!(
        system
            .text("systemctl")
            .contains("enable tailback-shaper.service")
    );
    system.works(&script, &["on", "wan", "adsl"]);
    assert_eq!(system.state(), once);
    // A reboot: the kernel forgets, the unit starts the script again.
    system.put("root.wan", "qdisc fq_codel 0: root\n");
    for gone in ["root.ifb-tailback", "link.ifb-tailback", "ingress.wan"] {
        fs::remove_file(system.0.join(gone)).expect("it was there");
    }
    let unit = system.text("etc/systemd/system/tailback-shaper.service");
    let start = unit
        .lines()
        .find_map(|l| l.strip_prefix("ExecStart=/bin/sh "));
    let (file, verb) = start.and_then(|s| s.rsplit_once(' ')).expect("a command");
    assert!(system.sh(Path::new(file), &[verb]).status.success());
    assert_eq!(system.state(), once);
    for _ in 0..2 {
        system.works(&script, &["off"]);
        let after = system.state();
        assert_eq!(after, before);
    }
}

#[test]
fn the_linux_shaper_leaves_alone_what_somebody_has_set() {
    let script = shaper(LINUX, 665, 7200);
    let system = linux("foreign");
    system.put("root.wan", "qdisc htb 1: root refcnt 2 r2q 10\n");
    let before = system.state();
    system.refuses(&script, &["on", "wan"], "somebody has set");
    assert_eq!(system.state(), before);
    system.put("root.wan", "qdisc fq_codel 0: root\n");
    system.put("ingress.wan", "");
    let before = system.state();
    system.refuses(&script, &["on", "wan"], "ingress rules");
    system.refuses(&script, &["on", "lan"], "no interface lan");
    system.refuses(&script, &["on", "wan", "isdn"], "no link");
    system.refuses(&script, &["on"], "which interface");
    system.refuses(&script, &["on", "a;b"], "which interface");
    system.refuses(&script, &[], "on INTERFACE");
    system.works(&script, &["off"]);
    assert_eq!(system.state(), before);
}

#[test]
fn a_kernel_without_cake_gets_fq_codel_and_a_failure_leaves_nothing_behind() {
    let script = shaper(LINUX, 665, 0);
    let system = linux("fq");
    system.put("no-cake", "");
    system.works(&script, &["on", "wan"]);
    let queue = system.text("root.wan");
    assert!(
        queue.contains("htb 7a1b:") && queue.contains("rate 665kbit"),
        "{queue}"
    );
    assert!(
        queue.contains("fq_codel target 19ms interval 380ms"),
        "{queue}"
    );
    assert!(!system.has("link.ifb-tailback"));
    system.works(&script, &["off"]);
    // Both directions, but the kernel has no classifier.
    let script = shaper(LINUX, 665, 7200);
    system.put("no-filter", "");
    let before = system.state();
    system.refuses(&script, &["on", "wan"], "as it was before");
    assert_eq!(system.state(), before);
}

#[test]
fn the_openwrt_shaper_has_a_section_of_its_own() {
    let users = "network.wan.device=eth1\nsqm.@queue[0]=queue\nsqm.@queue[0].interface=eth0\nsqm.@queue[0].enabled=1\n";
    let script = shaper(OPENWRT, 665, 7200);
    let system = System::new("openwrt");
    system.put("etc/config/sqm", users);
    system.works(&script, &["on", "adsl"]);
    let config = system.text("etc/config/sqm");
    assert!(config.starts_with(users), "{config}");
    for set in [
        "sqm.tailback.upload=775",
        "sqm.tailback.download=8395",
        "sqm.tailback.linklayer=atm",
    ] {
        assert!(config.contains(set), "{config}");
    }
    assert_eq!(system.text("etc/config/sqm.before-tailback"), users);
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    system.works(&script, &["on", "adsl"]);
    assert_eq!(sorted(system.text("etc/config/sqm")), sorted(config));
    assert_eq!(system.text("etc/config/sqm.before-tailback"), users);
    for _ in 0..2 {
        system.works(&script, &["off"]);
        assert_eq!(system.text("etc/config/sqm"), users);
    }
    // The user shapes the same interface.
    let own = users.replace("eth0", "eth1");
    system.put("etc/config/sqm", &own);
    system.refuses(&script, &["on"], "shapes eth1 already");
    assert_eq!(system.text("etc/config/sqm"), own);
}

#[test]
fn settings_of_the_host_are_brought_back() {
    let system = System::new("host");
    for (key, value) in [
        ("net.ipv4.tcp_notsent_lowat", "4294967295\n"),
        ("net.ipv4.tcp_rmem", "4096\t131072\t6291456\n"),
        ("net.ipv4.tcp_congestion_control", "cubic\n"),
        (
            "net.ipv4.tcp_available_congestion_control",
            "reno cubic bbr\n",
        ),
    ] {
        system.put(&format!("sysctl/{key}"), value);
    }
    fs::create_dir_all(system.0.join("etc/sysctl.d")).expect("a directory");
    let before = system.state();
    let script = HOST.replace("@UP@", "1").replace("@DOWN@", "1");
    system.works(&script, &["on"]);
    let once = system.state();
    assert_eq!(
        system.text("sysctl/net.ipv4.tcp_congestion_control"),
        "bbr\n"
    );
    assert!(system.has("etc/sysctl.d/90-tailback-host.conf"));
    system.works(&script, &["on"]);
    assert_eq!(system.state(), once);
    for _ in 0..2 {
        system.works(&script, &["off"]);
        assert_eq!(system.state(), before);
    }
}

#[test]
fn no_script_has_a_place_that_is_not_filled_in() {
    for text in [
        shaper(LINUX, 1, 2),
        shaper(OPENWRT, 1, 2),
        HOST.replace("@UP@", "1").replace("@DOWN@", "0"),
    ] {
        let open = text
            .lines()
            .filter(|l| l.contains("=@") || l.contains("* @"))
            .count();
        assert_eq!(open, 0, "{text}");
    }
}
