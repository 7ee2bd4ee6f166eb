//! Run of all tests: the binaries that `cargo test` builds, several at once. Most of their time is waiting for slow links and
//! time-outs, so the machine would be idle if they ran one after another.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Binaries whose tests mostly wait, or measure in real time, longest first. `testkit::real_time` and `testkit::beside`
/// hold them apart. All others use the processor and run before them.
const WAITING: &[&str] = &[
    "cli/networks",
    "cli/via",
    "cli/probe",
    "cli/control",
    "cli/control_prove",
    "cli/prove_real",
    "cli/fleet",
    "cli/end_to_end",
    "cli/faults",
    "cli/third_host",
    "cli/monitor",
    "cli/modem",
    "cli/attack",
    "live/path",
    "live/craft",
    "live/load_link",
    "live/netns",
    "live/probe",
];
/// Binaries at once, and threads of each, while the processor is used and while tests wait. Of the latter some wait until no other
/// test runs, and hold their threads meanwhile.
const BUSY: (usize, usize) = (2, 2);
const PATIENT: (usize, usize) = (6, 8);
/// A binary that prints nothing for longer hangs: it is ended, and named as such. A bound on its whole time would end what
/// only works on a slow machine. Tests that need the host for themselves wait for all others.
const SILENCE: Duration = Duration::from_secs(40 * 60);
/// Time between two looks at the running binaries.
const TICK: Duration = Duration::from_millis(50);
/// Mark of what a test tells although it passes: `testkit::real_time` writes it.
const REMARK: &str = "AGAIN ";
/// Lines of each failed binary that are repeated at the end, where a reader of the last page sees them.
const DIGEST: usize = 12;

/// One process: a test binary, or the examples of the documentation.
struct Job {
    name: String,
    command: Command,
}

/// Outcome of a job.
struct Done {
    name: String,
    seconds: f64,
    /// `None` if it was ended because it hung.
    status: Option<ExitStatus>,
    output: PathBuf,
}

/// A job under way.
struct Running {
    child: Child,
    began: Instant,
    /// Length of its output when it last grew, and that time.
    printed: (u64, Instant),
    done: Done,
}

/// Builds the tests and runs all of them, or those whose name contains one of these words. Binaries are named as
/// `cli/networks`, a room's own tests as `cli/unit`.
///
/// # Errors
/// If a build or a test fails.
pub fn run(root: &Path, words: &[String]) -> Result<()> {
    let began = Instant::now();
    let mut jobs = binaries(root)?;
    if let Some(name) = WAITING.iter().find(|n| jobs.iter().all(|j| j.name != **n)) {
        bail!("there is no test {name}: correct the list in xtask/src/suite.rs");
    }
    let mut examples = super::cargo(root);
    examples.args(["test", "--release", "--workspace", "--doc", "--quiet"]);
    let name = "examples".to_owned();
    jobs.insert(
        0,
        Job {
            name,
            command: examples,
        },
    );
    let is_wanted = |j: &Job| words.is_empty() || words.iter().any(|w| j.name.contains(w));
    jobs.retain(is_wanted);
    let place = |j: &Job| WAITING.iter().position(|n| *n == j.name);
    let (mut patient, busy): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|j| place(j).is_some());
    patient.sort_by_key(place);
    let logs = std::env::temp_dir().join("tailback-tests");
    std::fs::create_dir_all(&logs)?;
    println!("built in {:.0} s", began.elapsed().as_secs_f64());
    let mut all = at_once(busy, BUSY, &logs)?;
    all.extend(at_once(patient, PATIENT, &logs)?);
    report(&all, began)
}

/// Test binaries of the workspace, freshly built.
fn binaries(root: &Path) -> Result<Vec<Job>> {
    let built = super::cargo(root)
        .args(["test", "--release", "--workspace", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !built.status.success() {
        bail!("the tests cannot be built");
    }
    let mut jobs = Vec::new();
    for line in built
        .stdout
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
    {
        let message: Value = serde_json::from_slice(line).context("cargo prints JSON")?;
        jobs.extend(binary(&message));
    }
    Ok(jobs)
}

/// Test binary that a message of cargo tells of.
fn binary(message: &Value) -> Option<Job> {
    if message["profile"]["test"] != true {
        return None;
    }
    let executable = message["executable"].as_str()?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let room = folder.file_name()?.to_str()?;
    let is_own = message["target"]["kind"][0] != "test";
    let target = message["target"]["name"].as_str()?;
    let mut command = Command::new(executable);
    command
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder);
    let name = format!("{room}/{}", if is_own { "unit" } else { target });
    Some(Job { name, command })
}

/// Runs these jobs, so many at once; shows each as it ends.
fn at_once(jobs: Vec<Job>, (count, threads): (usize, usize), logs: &Path) -> Result<Vec<Done>> {
    let mut waiting = jobs.into_iter();
    let (mut running, mut all) = (Vec::new(), Vec::new());
    loop {
        while running.len() < count {
            let Some(mut job) = waiting.next() else { break };
            job.command.env("RUST_TEST_THREADS", threads.to_string());
            running.push(start(job, logs)?);
        }
        if running.is_empty() {
            return Ok(all);
        }
        std::thread::sleep(TICK);
        for mut job in std::mem::take(&mut running) {
            if is_over(&mut job)? {
                show(&job.done);
                all.push(job.done);
            } else {
                running.push(job);
            }
        }
    }
}

fn start(mut job: Job, logs: &Path) -> Result<Running> {
    let output = logs.join(job.name.replace('/', "-"));
    let file =
        File::create(&output).with_context(|| format!("cannot write {}", output.display()))?;
    job.command.stdin(Stdio::null());
    job.command.stdout(file.try_clone()?).stderr(file);
    let child = job.command.spawn();
    let began = Instant::now();
    Ok(Running {
        child: child.with_context(|| format!("cannot start {}", job.name))?,
        began,
        printed: (0, began),
        done: Done {
            name: job.name,
            seconds: 0.0,
            status: None,
            output,
        },
    })
}

/// True if the job has ended, or has hung and is ended here.
fn is_over(job: &mut Running) -> Result<bool> {
    job.done.seconds = job.began.elapsed().as_secs_f64();
    job.done.status = job.child.try_wait()?;
    let length = std::fs::metadata(&job.done.output)?.len();
    if length != job.printed.0 {
        job.printed = (length, Instant::now());
    }
    if job.done.status.is_none() && job.printed.1.elapsed() > SILENCE {
        job.child.kill()?;
        job.child.wait()?;
        return Ok(true);
    }
    Ok(job.done.status.is_some())
}

impl Done {
    fn has_passed(&self) -> bool {
        self.status.is_some_and(|s| s.success())
    }

    fn text(&self) -> String {
        let bytes = std::fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Failures and their reasons in a few lines: the tests under way if it was ended.
    fn digest(&self) -> Vec<String> {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        if self.status.is_none() {
            let ended = format!("ended after {:.0} s; its last lines:", self.seconds);
            let last = &lines[lines.len().saturating_sub(DIGEST)..];
            return [ended.as_str()]
                .iter()
                .chain(last)
                .map(|l| (*l).to_owned())
                .collect();
        }
        let is_panic = |l: &&str| l.contains("panicked at");
        let panics = (0..lines.len()).filter(|i| is_panic(&lines[*i]));
        let told = panics.flat_map(|i| lines[i..].iter().take(3));
        told.take(DIGEST).map(|l| (*l).to_owned()).collect()
    }
}

fn show(done: &Done) {
    let how = match done.status {
        Some(status) if status.success() => "passed",
        Some(_) => "FAILED",
        None => "HANGS",
    };
    println!("{how} {:6.1} s  {}", done.seconds, done.name);
    let text = done.text();
    for line in text.lines().filter(|l| l.starts_with(REMARK)) {
        println!("                 {line}");
    }
}

/// Prints the whole output of what failed, then what failed in few lines, and a last line.
fn report(all: &[Done], began: Instant) -> Result<()> {
    let failed: Vec<&Done> = all.iter().filter(|d| !d.has_passed()).collect();
    for done in &failed {
        println!("\n──── {} ────\n{}", done.name, done.text());
    }
    for done in &failed {
        println!("\n{}:\n  {}", done.name, done.digest().join("\n  "));
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "{} binaries in {took:.0} s, {} failed",
        all.len(),
        failed.len()
    );
    if !failed.is_empty() {
        let names: Vec<&str> = failed.iter().map(|d| d.name.as_str()).collect();
        bail!("failed: {}", names.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let name = name.to_owned();
        Job { name, command }
    }

    #[test]
    fn jobs_run_beside_each_other_and_a_failure_keeps_its_output() {
        let logs = testkit::TempDir::new("jobs");
        // Each waits for a file that the other writes.
        let script = |mine: &str, its: &str| {
            let (mine, its) = (logs.at(mine), logs.at(its));
            format!(
                "touch {mine}; while [ ! -e {its} ]; do sleep 0.01; done; echo $RUST_TEST_THREADS"
            )
        };
        let jobs = vec![
            job("a/x", &script("one", "two")),
            job("a/y", &script("two", "one")),
            job(
                "b/z",
                "echo 'AGAIN z: it was late' >&2; echo \"thread 'z' panicked at z.rs:1:\"; echo whole; exit 3",
            ),
        ];
        let all = at_once(jobs, (2, 7), &logs).expect("they run");
        let of = |name: &str| all.iter().find(|d| d.name == name).expect("it ran");
        assert!(of("a/x").has_passed() && of("a/y").has_passed());
        assert_eq!(of("a/x").text(), "7\n");
        assert!(!of("b/z").has_passed() && of("b/z").text().ends_with("whole\n"));
        assert_eq!(
            of("b/z").digest(),
            ["thread 'z' panicked at z.rs:1:", "whole"]
        );
        assert!(report(&all, Instant::now()).is_err());
        assert!(report(&all[..0], Instant::now()).is_ok());
    }

    #[test]
    fn a_hanging_binary_is_ended() {
        let logs = testkit::TempDir::new("hang");
        let script = "echo working; exec sleep 1000";
        let mut running = start(job("a/x", script), &logs).expect("it starts");
        while running.printed.0 == 0 {
            assert!(!is_over(&mut running).expect("it prints"));
        }
        assert!(!is_over(&mut running).expect("it runs"));
        assert!(!is_over(&mut running).expect("it runs"));
        running.printed.1 = Instant::now()
            .checked_sub(SILENCE + TICK)
            .expect("an uptime");
        assert!(is_over(&mut running).expect("it is ended"));
        assert!(running.done.status.is_none() && !running.done.has_passed());
        assert_eq!(running.done.digest().last().expect("a line"), "working");
    }
}
