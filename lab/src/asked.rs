//! Options of commands that judge draws, and what they write.

use crate::cores;
use std::path::PathBuf;

/// Draws that are asked for.
#[derive(clap::Args)]
pub struct Asked {
    /// Seed of the draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of draws
    #[arg(long, default_value_t = 300)]
    count: u64,
    /// Judge this one draw of the seed alone
    #[arg(long)]
    pub only: Option<u64>,
    /// Write every judged figure here, tab-separated
    #[arg(long)]
    list: Option<PathBuf>,
    /// Write the page here
    #[arg(long)]
    page: Option<PathBuf>,
}

impl Asked {
    /// Outcomes of the draws, in their order.
    ///
    /// # Errors
    /// A draw that cannot be carried out.
    pub fn each<T: Send>(
        &self,
        outcome: impl Fn(u64) -> anyhow::Result<T> + Sync,
    ) -> anyhow::Result<Vec<T>> {
        let numbers: Vec<u64> = match self.only {
            Some(number) => vec![number],
            None => (0..self.count).collect(),
        };
        cores::each(&numbers, outcome).into_iter().collect()
    }

    /// Prints the `text`, and writes the files. The page is the text behind its `introduction`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn tell(&self, introduction: &str, text: &str, list: &str) -> anyhow::Result<()> {
        print!("{text}");
        if let Some(path) = &self.list {
            std::fs::write(path, list)?;
        }
        if let Some(path) = &self.page {
            std::fs::write(path, format!("{introduction}{text}"))?;
        }
        Ok(())
    }
}
