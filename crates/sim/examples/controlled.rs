//! Latency control at a gateway on scenario files, beside no control: `controlled FILE…`.

use sim::Draft;

fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).unwrap();
        for law in ["off", "pie", "sawtooth"] {
            let mut draft = Draft::new(&text).unwrap();
            if law != "off" {
                draft.set("control.upload.law", law, "example").unwrap();
            }
            let mut scenario = draft.finish().unwrap();
            if law == "off" {
                scenario.control = None;
            }
            let o = sim::run::run(&scenario, 1, None, &mut |_| true).unwrap();
            let l = &o.links[0];
            let c = o.control.map_or(String::new(), |c| {
                format!(
                    "wait error {:.1} ms bias {:.1} capacity error {:.1} % signals {} blind {:.2}",
                    c.wait_rmse_ms.unwrap_or(f64::NAN),
                    c.wait_bias_ms.unwrap_or(f64::NAN),
                    100.0 * c.capacity_rmse.unwrap_or(f64::NAN),
                    c.signals,
                    c.blind
                )
            });
            println!(
                "{path:14} {law:8}: use {:6.2} % queue p50 {:6.1} p95 {:6.1} max {:6.1} ms drops {:4} {c}",
                100.0 * l.utilisation,
                l.queue_ms.p50,
                l.queue_ms.p95,
                l.queue_ms.max,
                l.drops,
            );
        }
    }
}
