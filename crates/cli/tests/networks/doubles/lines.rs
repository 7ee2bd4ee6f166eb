//! An emulated line and our server at its far end.

use live::emulate::{EmulateError, Emulation, Options};
use live::serve::{PortSet, ServeConfig, Server};

/// The line that a link's file describes.
pub fn start(spec: &str, options: Options) -> Result<Emulation, EmulateError> {
    let spec = link::LinkSpec::parse(spec).expect("a link");
    Emulation::start(&[spec], options)
}

/// Our server at the far end of the line, on the usual port.
pub fn serve(line: &Emulation) -> Server {
    let start = || {
        Server::start(ServeConfig {
            allow_listen: PortSet::any(),
            ..ServeConfig::default()
        })
    };
    line.far().run(start).expect("enters").expect("serves")
}
