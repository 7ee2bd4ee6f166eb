//! Latency control of the link behind this host, a gateway: the kernel's hands and eyes around `control`, which decides.

mod counters;
mod desk;
mod down;
mod first;
mod hook;
mod offload;
mod probes;
mod run;
mod settings;
mod shaper;
mod tap;

pub use control::download::Download;
pub use control::shape::Shape;
pub use control::upload::{Law, Upload, Why};
pub use desk::{Asked, ask};
pub use down::DownStatus;
pub use hook::{Exempt, PROGRAM, Side};
pub use run::{Gateway, Overseer, Status};
pub use settings::{Directions, Settings};

use crate::traffic;
use std::io;
use std::net::SocketAddr;

/// Reason why a gateway cannot be controlled.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("no interface \"{name}\" here. There are: {}", .known.join(", "))]
    NoInterface { name: String, known: Vec<String> },
    #[error("cannot {what}: {source}. Control needs CAP_BPF and CAP_NET_ADMIN: run as root")]
    NotAllowed {
        what: &'static str,
        source: io::Error,
    },
    #[error(
        "cannot {what}: {source}. The hook needs Linux 6.6 or later with CONFIG_BPF_SYSCALL and CONFIG_NET_XGRESS"
    )]
    NoHook {
        what: &'static str,
        source: io::Error,
    },
    #[error(
        "another `tailback control run` controls {interface}: stop it with `tailback control stop --wan {interface}`"
    )]
    Owned { interface: String },
    #[error("cannot use {device} as a shaper: {why}")]
    Shaper { device: String, why: String },
    #[error("no `tailback control run` is running on {interface}")]
    NotRunning { interface: String },
    #[error("the server {server} cannot be used: {why}. Nothing was changed")]
    Server { server: SocketAddr, why: String },
    #[error("cannot {what}: {told}")]
    Kernel { what: &'static str, told: String },
    #[error("the eBPF object has no \"{name}\": this is a fault of the program")]
    Object { name: &'static str },
    #[error("cannot {what}: {source}")]
    Local {
        what: &'static str,
        source: io::Error,
    },
}

impl ControlError {
    /// Meaning of an error of the eBPF library: its first cause from the kernel decides.
    fn of_kernel(what: &'static str, e: &(dyn std::error::Error + 'static)) -> ControlError {
        let mut told = e.to_string();
        let mut cause = Some(e);
        while let Some(e) = cause {
            let errno = e
                .downcast_ref::<io::Error>()
                .and_then(io::Error::raw_os_error);
            let source = io::Error::from_raw_os_error;
            match errno {
                Some(n @ (libc::EPERM | libc::EACCES)) => {
                    return ControlError::NotAllowed {
                        what,
                        source: source(n),
                    };
                }
                Some(n @ (libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | 524)) => {
                    return ControlError::NoHook {
                        what,
                        source: source(n),
                    };
                }
                _ => {}
            }
            cause = e.source();
            if let Some(e) = cause.map(ToString::to_string).filter(|c| !told.contains(c)) {
                told = format!("{told}: {e}");
            }
        }
        ControlError::Kernel { what, told }
    }
}

/// State of the place where control would act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Programs at the interface's TCX egress, in their order.
    pub programs: Vec<String>,
    /// Programs at its TCX ingress.
    pub ingress: Vec<String>,
    /// True if another run holds the interface.
    pub owned: bool,
}

/// Looks at the interface, and changes nothing.
///
/// # Errors
/// No such interface, no permission, or a kernel without the hook.
pub fn inspect(interface: &str) -> Result<Place, ControlError> {
    check_interface(interface)?;
    let programs = hook::programs(interface, Side::Egress)?;
    let ingress = hook::programs(interface, Side::Ingress)?;
    let ours = programs.iter().chain(&ingress).any(|p| p == PROGRAM);
    Ok(Place {
        owned: desk::is_held(interface) || ours,
        programs,
        ingress,
    })
}

fn check_interface(name: &str) -> Result<(), ControlError> {
    let known = traffic::interfaces().map_err(|source| ControlError::Local {
        what: "list the interfaces",
        source,
    })?;
    match known.iter().any(|k| k == name) {
        true => Ok(()),
        false => Err(ControlError::NoInterface {
            name: name.to_owned(),
            known,
        }),
    }
}
