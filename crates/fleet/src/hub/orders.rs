//! Carries out an operator's order, from the hub's own machine or, with a token, from another one.

use super::text::about_point;
use super::{Hub, Invited};
use crate::order::{Look, Order, Subject, Told};
use ops::Progress;
use report::terminal::Style;

/// Narrowest and widest text, columns.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=10_000;

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
