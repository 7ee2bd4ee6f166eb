//! Programs behind the link: what `tailback emulate` does, here through the example `emulate`, as root and
//! as a user without rights. A skip says why; TAILBACK_REQUIRE_NETNS=1 turns it into a failure.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::{real_time_beside, skip};

const LINK: &str = "name = \"t\"\ntitle = \"t\"\n[up]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n[down]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n";
/// A user that owns nothing.
const NOBODY: u32 = 65534;

fn program() -> PathBuf {
    let deps = std::env::current_exe().expect("this test is a file");
    let program = deps.with_file_name("../examples/emulate");
    assert!(
        program.exists(),
        "{} is missing: cargo build --release -p tailback-live --example emulate",
        program.display()
    );
    program
}

/// Behind the link, with what comes after the links on its command line.
fn emulate(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg(LINK).args(arguments).stdin(Stdio::null());
    command
}

fn output(mut command: Command) -> Option<Output> {
    let output = command.output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(3) && said.contains("cannot make") {
        skip(&said);
        return None;
    }
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_programs_output_and_exit_code_are_its_own_and_the_names_are_known() {
    let script = "getent ahosts far; getent ahosts near; exit 7";
    let Some(output) = output(emulate(&["--", "sh", "-c", script])) else {
        return;
    };
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for address in ["10.77.0.1", "10.77.0.2", "fd77::1", "fd77::2"] {
        assert!(said.contains(address), "{said}");
    }
    assert!(
        text(&output.stderr).contains("Emulated for"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_program_ended_by_a_signal_is_told_as_a_shell_tells_it() {
    let Some(output) = output(emulate(&["--", "sh", "-c", "kill -9 $$"])) else {
        return;
    };
    assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let Some(output) = output(emulate(&["--", "/no/such/program"])) else {
        return;
    };
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr)
            .contains("cannot run \"/no/such/program\" behind the link: No such file"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_packet_goes_there_and_the_answer_comes_back() {
    real_time_beside(there_and_back);
}

fn there_and_back() {
    // Nobody listens at that port: the far kernel says so by ICMP, which takes the link back.
    let script = "echo hello > /dev/udp/10.77.0.2/9; echo hello > /dev/udp/fd77::2/9; sleep 0.2";
    let Some(output) = output(emulate(&["--", "bash", "-c", script])) else {
        return;
    };
    let said = text(&output.stderr);
    assert!(
        said.contains("Up 2 of 2 packets delivered")
            && said.contains("Down 2 of 2 packets delivered"),
        "{said}"
    );
}

/// The program where another user may read it, and the directory to remove.
fn copy_for_all(purpose: &str) -> (PathBuf, PathBuf) {
    let directory = std::env::temp_dir().join(format!("tailback-{purpose}-{}", std::process::id()));
    fs::create_dir(&directory).expect("a temporary directory");
    fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).expect("its permissions");
    let copy = directory.join("emulate");
    fs::copy(program(), &copy).expect("a copy of the program");
    (directory, copy)
}

#[test]
fn the_same_without_root() {
    real_time_beside(there_and_back_without_root);
}

fn there_and_back_without_root() {
    let (directory, copy) = copy_for_all("rootless");
    let script = "echo hello > /dev/udp/10.77.0.2/9; sleep 0.2; id -u; cat /proc/self/net/dev; grep CapEff /proc/self/status";
    let mut command = Command::new(&copy);
    command
        .args([LINK, "--", "bash", "-c", script])
        .current_dir("/");
    let root = nix::unistd::geteuid().is_root();
    if root {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = output(command);
    fs::remove_dir_all(&directory).expect("removed again");
    let Some(output) = output else { return };
    let (said, narrated) = (text(&output.stdout), text(&output.stderr));
    assert!(
        narrated.contains("Up 1 of 1 packets delivered") && narrated.contains("Down 1 of 1"),
        "{narrated}"
    );
    assert!(said.contains("link0"), "{said}");
    let uid = if root {
        NOBODY
    } else {
        nix::unistd::geteuid().as_raw()
    };
    assert!(said.starts_with(&format!("{uid}\n")), "{said}");
    // The network's rights, in a namespace where they are worth nothing to the host: bits 10, 12 and 13.
    if uid != 0 {
        assert!(said.contains("CapEff:\t0000000000003400"), "{said}");
    }
}

#[test]
fn where_user_namespaces_are_forbidden_the_error_names_the_setting() {
    // Inside a user namespace the setting can be changed for that namespace alone; then all rights are given up.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let (directory, copy) = copy_for_all("forbidden");
    let mut command = Command::new("unshare");
    command
        .args(["-Ur", "sh", "-c", script, "sh"])
        .arg(&copy)
        .args([LINK, "--", "true"])
        .current_dir("/");
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().expect("util-linux is there");
    fs::remove_dir_all(&directory).expect("removed again");
    let said = text(&output.stderr);
    if said.starts_with("unshare:") {
        return skip(&said);
    }
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("user.max_user_namespaces = 0") && said.contains("sudo sysctl -w"),
        "{said}"
    );
}

/// A running emulation whose program has said that it is ready.
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Nothing where the system does not allow it.
    fn start(arguments: &[&str]) -> Option<Running> {
        let mut child = emulate(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe"))
            .read_line(&mut line)
            .expect("readable");
        if line == "ready\n" {
            return Some(Running { child });
        }
        let output = child.wait_with_output().expect("ends");
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(3) && said.contains("cannot make"),
            "{said}"
        );
        skip(&said);
        None
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }
}

#[test]
fn a_signal_is_passed_on_to_the_program() {
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let Some(mut running) = Running::start(&["--", "sh", "-c", script]) else {
        return;
    };
    running.signal(Signal::SIGTERM);
    assert_eq!(running.child.wait().expect("ends").code(), Some(9));
}

/// Processes whose command line contains `mark`.
fn processes_with(mark: &str) -> Vec<String> {
    fs::read_dir("/proc")
        .expect("a /proc")
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| text(&line).replace('\0', " "))
        .filter(|line| line.contains(mark))
        .collect()
}

/// Waits until `done`, for a bounded time.
fn soon(done: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    done()
}

fn interfaces() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir("/sys/class/net")
        .expect("sysfs")
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[test]
fn kill_9_in_the_middle_leaves_no_process_no_namespace_and_no_interface() {
    let before = interfaces();
    // A number of seconds that nobody else sleeps for marks what is ours.
    let mark = format!("sleep {}.5", 1_000_000 + std::process::id());
    let near = format!("{mark} & (trap '' TERM HUP; {mark}) & echo ready; {mark}");
    let Some(running) = Running::start(&["--far", "sh", "-c", &mark, "--", "sh", "-c", &near])
    else {
        return;
    };
    // Process namespace and network namespace of what runs behind the link.
    let pid = running.child.id();
    assert!(
        soon(|| processes_with(&mark).len() >= 5),
        "{:?}",
        processes_with(&mark)
    );
    let spaces = namespaces_below(pid);
    assert!(spaces.len() >= 2, "{spaces:?}");
    running.signal(Signal::SIGKILL);
    drop(running);
    assert!(
        soon(|| processes_with(&mark).is_empty()),
        "left behind: {:?}",
        processes_with(&mark)
    );
    assert!(
        soon(|| !all_namespaces().iter().any(|n| spaces.contains(n))),
        "{spaces:?} are still held"
    );
    assert_eq!(interfaces(), before);
}

fn namespace_of(pid: &str) -> Option<String> {
    Some(
        fs::read_link(format!("/proc/{pid}/ns/net"))
            .ok()?
            .to_str()?
            .to_string(),
    )
}

fn all_namespaces() -> Vec<String> {
    fs::read_dir("/proc")
        .expect("a /proc")
        .filter_map(|e| namespace_of(e.ok()?.file_name().to_str()?))
        .collect()
}

/// Network namespaces of the children of `pid` that are not this test's own.
fn namespaces_below(pid: u32) -> Vec<String> {
    let own = namespace_of("self").expect("its own");
    let parent = |p: &str| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{p}/status")).ok()?;
        status
            .lines()
            .find_map(|l| l.strip_prefix("PPid:"))?
            .trim()
            .parse()
            .ok()
    };
    let mut found: Vec<String> = fs::read_dir("/proc")
        .expect("a /proc")
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|p| parent(p) == Some(pid))
        .filter_map(|p| namespace_of(&p))
        .filter(|n| *n != own)
        .collect();
    found.sort();
    found.dedup();
    found
}
