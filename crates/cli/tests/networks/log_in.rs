//! `tailback test` and `probe` behind a network that asks for a log-in: a verdict instead of a measurement, and the user's
//! command that passes it.

use crate::doubles::network::can_translate;
use crate::doubles::portal::{self, Style};
use crate::doubles::{line, serve};
use live::emulate::{Emulation, FAR_V4};
use std::process::Output;
use testkit::{Program, TempDir};

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

/// Measures the round trip from the near end.
fn measured(line: &Emulation, more: &[&str]) -> (Output, String) {
    let dir = TempDir::new("log-in");
    let far = FAR_V4.to_string();
    let recording = dir.at("probe.rec");
    let mut command = program().command(&["probe", "rtt", &far, "-o", &recording]);
    command.args(more);
    let out = line.near().command(&mut command).output();
    let out = out.expect("tailback runs");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    (out, told)
}

#[test]
fn a_log_in_page_is_a_verdict_until_the_users_command_passes_it() {
    testkit::real_time_beside(|| {
        for style in [Style::Redirect, Style::Required, Style::Rewritten] {
            let Some(line) = line(2) else { return };
            if !can_translate(line.far()) {
                return;
            }
            let server = serve(&line);
            let gateway = portal::start(line.far(), FAR_V4, style);
            let login = portal::login(FAR_V4);
            let (out, told) = measured(&line, &[]);
            assert_eq!(out.status.code(), Some(3), "{style:?}: {told}");
            // The gateway redirects to itself, in the server's place: only 511 is a proof.
            let verdict = match style {
                Style::Required => "a log-in page answers in place of",
                Style::Redirect | Style::Rewritten => "a log-in page may answer in place of",
            };
            assert!(told.contains(verdict), "{style:?}: {told}");
            assert!(
                told.contains("not a measurement") && told.contains(&login),
                "{style:?}: {told}"
            );

            let pass = format!(
                "test \"$TAILBACK_LOGIN_URL\" = {login} && exec bash -c 'exec 3<>/dev/tcp/{FAR_V4}/8080; \
                 printf \"GET /login HTTP/1.1\\r\\n\\r\\n\" >&3; head -1 <&3'"
            );
            let (out, told) = measured(&line, &["--login-cmd", &pass]);
            assert!(out.status.success(), "{style:?}: {told}");
            drop((gateway, server));
        }
    });
}

#[test]
fn a_server_that_is_down_behind_no_log_in_page_is_not_blamed_on_one() {
    testkit::real_time_beside(|| {
        let Some(line) = line(2) else { return };
        let (out, told) = measured(&line, &[]);
        assert!(!out.status.success() && !told.contains("log-in"), "{told}");
    });
}
