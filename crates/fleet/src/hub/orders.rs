//! Orders of an operator, from the hub's own machine or, with a token, from another one.

use super::text::about_point;
use super::{Hub, Invited};
use ops::Progress;
use report::terminal::Style;
use serde::{Deserialize, Serialize};

/// Narrowest and widest text, columns.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=10_000;

/// Order of an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// State of all points.
    Status,
    /// Changes of the fleet.
    Log,
    /// Publishes a plan.
    Plan { text: String },
    /// Asks points for a run out of turn.
    RunNow {
        points: Vec<String>,
        measurement: String,
    },
    /// Sets labels of a point.
    Label { point: String, labels: Vec<String> },
    /// Compares points over these days (UTC), from the first one to the last; all days if they are empty.
    Report {
        subject: Subject,
        from: String,
        to: String,
    },
    /// Halts the newest release, or lets it go on.
    Release { halt: bool },
    /// Makes a one-time code: for the point of this name, or for a shared recording.
    Invite { name: Option<String> },
    /// Ends the access of a point.
    Revoke { name: String },
    /// Ends the access of a point and deletes its recordings.
    Forget { name: String },
}

/// Subject of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Subject {
    /// All points, perhaps in groups by a label.
    Points { by: Option<String> },
    /// One point over its days.
    Point { name: String },
}

/// Looks of the answer's text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    /// Columns of a table.
    pub table: usize,
    /// Columns of a report.
    pub columns: usize,
    pub colour: bool,
    pub unicode: bool,
}

/// Answer to an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// JSON of the answer; empty if the order has none.
    pub json: String,
    pub text: String,
    /// Page of a report.
    pub page: Option<String>,
    /// Sentences about recordings that a report leaves out.
    pub left_out: Vec<String>,
}

impl Told {
    fn new(json: &impl Serialize, text: String) -> anyhow::Result<Told> {
        Ok(Told {
            json: serde_json::to_string_pretty(json)?,
            text,
            ..Told::default()
        })
    }

    fn only(text: String) -> Told {
        Told {
            text,
            ..Told::default()
        }
    }
}

impl Hub {
    /// Carries out an order.
    ///
    /// # Errors
    /// Whatever stands in the way of the order.
    pub fn obey(
        &self,
        order: &Order,
        look: Look,
        progress: &mut dyn Progress,
    ) -> anyhow::Result<Told> {
        match order {
            Order::Status => {
                let status = self.status()?;
                let columns = look.table.max(*COLUMNS.start());
                Told::new(&serde_json::to_value(&status)?, status.text(columns))
            }
            Order::Log => {
                let log = self.log()?;
                Told::new(&log, log.text())
            }
            Order::Plan { text } => {
                let number = self.publish(text)?;
                Ok(Told::only(format!("plan {number}\n")))
            }
            Order::RunNow {
                points,
                measurement,
            } => {
                let asked = self.run_now(points, measurement)?;
                Told::new(&asked, asked.text())
            }
            Order::Label { point, labels } => {
                self.label(point, labels)?;
                Ok(Told::default())
            }
            Order::Report { subject, from, to } => {
                self.digest(progress)?;
                self.report(subject, (from, to), look)
            }
            Order::Release { halt } => {
                let version = self.halt_release(*halt)?;
                let what = if *halt { "is halted" } else { "goes on" };
                Ok(Told::only(format!("release {version} {what}\n")))
            }
            Order::Invite { name } => {
                let code = match name {
                    Some(name) => self.invite(name)?,
                    None => self.invite_share()?,
                };
                let invited = Invited {
                    point: name.clone(),
                    code: code.to_string(),
                };
                Told::new(&invited, format!("{code}\n"))
            }
            Order::Revoke { name } => {
                self.revoke(name)?;
                Ok(Told::default())
            }
            Order::Forget { name } => {
                self.forget(name)?;
                Ok(Told::default())
            }
        }
    }

    /// Points side by side, or one over its days.
    fn report(&self, subject: &Subject, dates: (&str, &str), look: Look) -> anyhow::Result<Told> {
        let measured = match subject {
            Subject::Points { .. } => self.measured(dates),
            Subject::Point { name } => self.measured_with_hours(name, dates),
        }?;
        let style = Style {
            width: look.columns.clamp(*COLUMNS.start(), *COLUMNS.end()),
            colour: look.colour,
            unicode: look.unicode,
        };
        let (told, page) = match subject {
            Subject::Points { by } => {
                let answer = ops::points::run(&measured.points, by.as_deref())?;
                let value = serde_json::to_value(&answer.points)?;
                (
                    Told::new(&value, answer.text(style))?,
                    answer.page().to_owned(),
                )
            }
            Subject::Point { name } => {
                let says = about_point(self, name)?;
                let answer = ops::points::point(&measured.points, name, &says)?;
                let value = serde_json::to_value(&answer.point)?;
                (
                    Told::new(&value, answer.text(style))?,
                    answer.page().to_owned(),
                )
            }
        };
        Ok(Told {
            page: Some(page),
            left_out: measured.left_out,
            ..told
        })
    }
}
